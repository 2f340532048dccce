// A custom handler for Azure Functions in JavaScript, with what Node has and no packages.
//
// The host posts every invocation to /<function> as {"Data": {...}, "Metadata": {...}} and takes {"Outputs": {...}, "Logs": [...],
// "ReturnValue": ...}. Texts in Data hold JSON: a queue message "hi" comes as "\"hi\"". The function hello has HTTP in and
// out and nothing else; since host.json says enableForwardingHttpRequest, it gets the request itself, at /api/hello.
'use strict'
const http = require('node:http')

const functions = {
  '/order': ({ Data }) => {
    const body = JSON.parse(Data.req.Body)
    if (body.id === undefined) {
      return { Outputs: { res: { statusCode: 400, body: { error: 'an order needs an id' } } } }
    }
    return {
      Outputs: { message: JSON.stringify(body), res: { statusCode: 202, body: { accepted: body.id } } },
      Logs: [`order ${body.id} accepted`]
    }
  },

  '/ship': ({ Data, Metadata }) => {
    const order = JSON.parse(JSON.parse(Data.order))
    if (!order.item) {
      throw new Error('there is nothing to ship') // 500: tried again, and in the end put to orders-poison
    }
    return {
      Outputs: {
        slip: `${order.item} for order ${order.id}, attempt ${Metadata.DequeueCount ?? 1}`,
        row: { RowKey: String(order.id), Item: order.item, Pieces: order.pieces ?? 1 }
      },
      ReturnValue: [`order ${order.id} is on its way`, `invoice for order ${order.id}`],
      Logs: [`order ${order.id} shipped`]
    }
  },

  '/upper': ({ Data }) => ({ ReturnValue: JSON.parse(Data.text).toUpperCase() }),

  '/tick': ({ Data }) => ({ Outputs: { ticks: Data.timer.IsPastDue ? 'past due' : 'on time' } })
}

const server = http.createServer((req, res) => {
  const url = new URL(req.url, 'http://localhost')
  if (req.method === 'GET' && url.pathname.startsWith('/api/hello')) {
    const name = decodeURIComponent(url.pathname.slice('/api/hello/'.length)) || url.searchParams.get('name') || 'world'
    res.setHeader('Content-Type', 'text/plain; charset=utf-8')
    res.end(`Hello, ${name}!`)
    return
  }
  const chunks = []
  req.on('data', chunk => chunks.push(chunk))
  req.on('end', () => {
    let status = 200
    let answer
    try {
      answer = functions[url.pathname](JSON.parse(Buffer.concat(chunks).toString()))
    } catch (e) {
      status = 500
      answer = { error: String(e) }
    }
    res.writeHead(status, { 'Content-Type': 'application/json' })
    res.end(JSON.stringify(answer))
  })
})

const port = process.env.FUNCTIONS_CUSTOMHANDLER_PORT
server.listen(port, '127.0.0.1', () => console.log(`listening on port ${port}`))
