// The dashboard's script: what is live. Every page works without it.

const token = document.querySelector('meta[name=csrf]').content;

// Buttons that copy the text of another element.
const copies = (part) => { for (const button of part.querySelectorAll('[data-copy]')) {
  button.addEventListener('click', async () => {
    const source = document.getElementById(button.dataset.copy);
    const text = source.value ?? source.textContent;
    try {
      await navigator.clipboard.writeText(text);
    } catch { // no permission, or a page without a secure origin
      source.select?.();
      document.execCommand('copy');
    }
    const before = button.textContent;
    button.textContent = 'Copied';
    setTimeout(() => { button.textContent = before; }, 1500);
  });
} };
copies(document);

// Forms that destroy something ask first; without the script the server asks.
const dialog = document.getElementById('confirm');
const confirms = (part) => { for (const form of part.querySelectorAll('form[data-confirm]')) {
  form.addEventListener('submit', (event) => {
    if (form.elements.confirmed) return;
    event.preventDefault();
    const button = event.submitter;
    dialog.querySelector('p').textContent = form.elements.ask.value;
    dialog.returnValue = 'no';
    dialog.showModal();
    dialog.addEventListener('close', () => {
      if (dialog.returnValue !== 'yes') return;
      const yes = document.createElement('input');
      Object.assign(yes, { type: 'hidden', name: 'confirmed', value: 'yes' });
      form.append(yes);
      form.requestSubmit(button);
    }, { once: true });
  });
} };
confirms(document);

// The plan of a table's filter, while it is being written.
const filter = document.querySelector('[data-plan] input');
if (filter) {
  const form = filter.form;
  const place = document.getElementById('plan');
  const hints = document.getElementById('hints');
  let timer, asked = 0;
  const ask = async () => {
    const number = ++asked;
    const answer = await fetch(form.dataset.plan + '?filter=' + encodeURIComponent(filter.value), { headers: { Accept: 'application/json' } });
    const plan = await answer.json();
    if (number !== asked) return; // a later question is under way
    place.className = plan.error ? 'bad' : 'muted';
    hints.hidden = !plan.hints?.length;
    hints.querySelector('p').textContent = (plan.hints ?? []).join(' ');
    if (plan.error) {
      place.textContent = plan.error;
      return;
    }
    const more = plan.more ? '; there are more pages' : '';
    place.textContent = `${plan.plan}: ${plan.cost.replace(/^[^:]*: /, '')}. The first page reads ${plan.scanned} ${plan.scanned === 1 ? 'entity' : 'entities'} and returns ${plan.returned}${more}.`;
  };
  filter.addEventListener('input', () => { clearTimeout(timer); timer = setTimeout(ask, 250); });
  ask();
}

// More rows in the form of an entity.
document.querySelector('[data-add-row]')?.addEventListener('click', () => {
  const rows = document.querySelector('form.entity tbody');
  const row = rows.rows[rows.rows.length - 1].cloneNode(true);
  for (const field of row.querySelectorAll('input, textarea')) field.value = '';
  rows.append(row);
  row.querySelector('input').focus();
});

// The live log: each event is a row.
const live = document.querySelector('[data-live]');
if (live) {
  const place = document.getElementById('live');
  const button = document.querySelector('[data-pause]');
  const rows = 500;
  let last = Number(live.rows[0]?.dataset.number ?? 0), source;
  const start = () => {
    source = new EventSource(live.dataset.live);
    source.onopen = () => { place.textContent = 'Live. Requests of the dashboard itself are not shown.'; };
    source.onerror = () => { place.textContent = 'The connection is broken; trying again.'; };
    source.onmessage = (event) => {
      const template = document.createElement('template');
      template.innerHTML = event.data; // rendered and escaped by the server
      const row = template.content.firstElementChild;
      if (Number(row.dataset.number) <= last) return;
      last = Number(row.dataset.number);
      // A long request ends after those that began later: it has its place below them.
      const at = Number(row.dataset.at);
      const below = 'byEnd' in live.dataset ? live.rows[0] : [...live.rows].find((other) => Number(other.dataset.at) <= at);
      live.insertBefore(row, below ?? null);
      times(row);
      document.querySelector('.empty')?.remove();
      while (live.rows.length > rows) live.deleteRow(-1);
    };
  };
  button.addEventListener('click', () => {
    const pause = button.getAttribute('aria-pressed') === 'false';
    button.setAttribute('aria-pressed', String(pause));
    button.textContent = pause ? 'Resume' : 'Pause';
    if (pause) {
      source.close();
      place.textContent = 'Paused.';
    } else {
      start();
    }
  });
  start();
}

// Charts: the values at the pointer, or at the place to which the arrow keys go.
const plots = (part) => { for (const figure of part.querySelectorAll('[data-plot]')) plot(figure); };
plots(document);
function plot(figure) {
  const data = JSON.parse(figure.dataset.plot), svg = figure.querySelector('svg'), output = figure.querySelector('output');
  const last = data.lines[0].values.length - 1;
  const cursor = document.createElementNS('http://www.w3.org/2000/svg', 'path');
  let at = last;
  const show = (i) => {
    at = Math.max(0, Math.min(last, i));
    cursor.setAttribute('d', `M${at} 0V60`);
    svg.append(cursor);
    const time = clock(new Date(data.start + at * data.step), { hour: '2-digit', minute: '2-digit', ...(data.step < 60000 && { second: '2-digit' }) });
    output.textContent = `${time}: ${data.lines.map((line) => `${line.values[at]} ${line.name}`).join(', ')}`;
  };
  const hide = () => { cursor.remove(); output.textContent = ''; };
  svg.setAttribute('tabindex', '0');
  svg.addEventListener('pointermove', (event) => {
    const box = svg.getBoundingClientRect();
    show(Math.round((event.clientX - box.left) / box.width * last));
  });
  svg.addEventListener('pointerleave', hide);
  svg.addEventListener('focus', () => { if (svg.matches(':focus-visible')) show(last); });
  svg.addEventListener('blur', hide);
  svg.addEventListener('keydown', (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
    if (!step) return;
    event.preventDefault();
    show(at + step);
  });
}

// A time for people, in UTC or in the zone of the browser.
function clock(time, options) {
  return new Intl.DateTimeFormat('sv-SE', { ...(!local() && { timeZone: 'UTC' }), ...options }).format(time);
}
function local() { try { return localStorage.getItem('local-time') === 'yes'; } catch { return false; } }
function times(part) {
  const day = { year: 'numeric', month: '2-digit', day: '2-digit' }, minute = { hour: '2-digit', minute: '2-digit' }, second = { ...minute, second: '2-digit' };
  const forms = { date: { ...day, ...second }, clock: { ...second, fractionalSecondDigits: 3 }, minute };
  for (const element of part.querySelectorAll('time[data-form]')) {
    const text = clock(new Date(element.dateTime), forms[element.dataset.form]).replace(',', '.');
    element.textContent = element.dataset.form === 'date' && !local() ? text + ' UTC' : text;
  }
  for (const zone of part.querySelectorAll('[data-zone]')) zone.textContent = local() ? '(local)' : '(UTC)';
}
const zone = document.querySelector('[data-zone-button]');
zone.parentElement.hidden = false;
zone.setAttribute('aria-pressed', String(local()));
zone.addEventListener('click', () => {
  try { localStorage.setItem('local-time', local() ? 'no' : 'yes'); } catch { return; } // storage is off
  zone.setAttribute('aria-pressed', String(local()));
  times(document);
});
if (local()) times(document);

// Pages that follow the server: an event stream says that something has changed. The page is then fetched again, and its
// parts are replaced where they differ. A part stays as it is while a person points at it, has something selected, open or
// ticked in it, or the keyboard in it.
const follow = document.querySelector('[data-follow]');
if (follow) {
  const age = document.querySelector('[data-age]'), button = age.querySelector('button'), text = age.querySelector('span');
  age.hidden = false;
  // A fetch costs the server as much as it says; a thousand times as long passes until the next one.
  const least = 2000, most = 30000, always = follow.dataset.follow === 'always';
  let fetched = Date.now(), changed = false, busy = false, pause = least, held = 0, paused = false, broken = '', source, seen;
  const holds = (part) => part.matches(':hover') || part.contains(document.activeElement)
    || [...part.querySelectorAll('details[open]')].some((d) => !d.hasAttribute('data-open'))
    || part.querySelector('input[type=checkbox]:checked') !== null
    || !document.getSelection().isCollapsed && part.contains(document.getSelection().anchorNode);
  const put = (part, fresh) => {
    const sorted = part.querySelector('th[aria-sort]');
    const column = sorted?.cellIndex, down = sorted?.getAttribute('aria-sort') === 'descending';
    part.replaceChildren(...fresh.childNodes);
    part.hidden = fresh.hidden;
    for (const enhance of [copies, confirms, plots, sorts, choices]) enhance(part);
    if (local()) times(part);
    if (column !== undefined) for (let i = 0; i < (down ? 2 : 1); i++) part.querySelector('table.sort').tHead.rows[0].cells[column].querySelector('button')?.click();
  };
  const raw = new Map(); // the parts as the server sent them: the script has changed those on the page
  for (const part of document.querySelectorAll('[data-part]')) raw.set(part.dataset.part, null);
  const refresh = async () => {
    busy = true;
    const began = Date.now();
    try {
      const answer = await fetch(location.href, { headers: { 'X-Lazuli-Refresh': '1' } });
      const cost = Number(/dur=([\d.]+)/.exec(answer.headers.get('Server-Timing') ?? '')?.[1] ?? 50);
      pause = Math.min(most, Math.max(least, cost * 1000));
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
      held = 0;
      for (const part of document.querySelectorAll('[data-part]')) {
        const fresh = page.querySelector(`[data-part="${part.dataset.part}"]`);
        if (!fresh || fresh.innerHTML === raw.get(part.dataset.part)) continue;
        if (holds(part)) { held++; continue; }
        raw.set(part.dataset.part, fresh.innerHTML);
        put(part, fresh);
      }
      broken = '';
      fetched = began;
      changed = held > 0;
    } catch (error) {
      broken = error.message;
      pause = most;
    }
    busy = false;
  };
  const connect = () => {
    source = new EventSource('/ui/live');
    source.onmessage = (event) => { if (seen !== undefined && event.data !== seen) changed = true; seen = event.data; };
  };
  const seconds = (n) => n < 60 ? `${n} s` : `${Math.floor(n / 60)} min`;
  const tick = () => {
    const old = Date.now() - fetched;
    // Ages and rates grow old without a change.
    if (!paused && !busy && !document.hidden && !dialog.open && old >= pause && (changed || always || old >= most)) refresh();
    const words = paused ? 'paused' : held ? 'what you point at or use is not replaced' : broken ? `no answer: ${broken}` : 'live';
    text.textContent = `Updated ${old < 2000 ? 'now' : seconds(Math.floor(old / 1000)) + ' ago'}, ${words}. `;
  };
  const visible = () => {
    source?.close();
    source = undefined;
    if (!document.hidden && !paused) connect();
    if (!document.hidden) changed = true;
  };
  document.addEventListener('visibilitychange', visible);
  button.addEventListener('click', () => {
    paused = !paused;
    button.setAttribute('aria-pressed', String(paused));
    button.textContent = paused ? 'Resume' : 'Pause';
    visible();
    tick();
  });
  setInterval(tick, 1000);
  if (!document.hidden) connect();
  tick();
}

// Uploads: files that are chosen or dropped, one request each.
const drop = document.querySelector('[data-upload]');
if (drop) {
  const progress = drop.querySelector('progress');
  const status = drop.querySelector('[role=status]');
  const send = (file, name) => new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open('POST', drop.dataset.upload + '?name=' + encodeURIComponent(name));
    request.setRequestHeader('X-Csrf-Token', token);
    request.setRequestHeader('Accept', 'application/json');
    request.upload.onprogress = (event) => { progress.value = event.loaded / event.total; };
    request.onload = () => {
      if (request.status === 201) return resolve();
      let why = request.statusText;
      try { why = JSON.parse(request.responseText).error; } catch { /* not ours */ }
      reject(new Error(why));
    };
    request.onerror = () => reject(new Error('the connection broke'));
    request.send(file);
  });
  const upload = async (files) => {
    progress.hidden = false;
    for (const file of files) {
      const name = drop.dataset.prefix + (file.webkitRelativePath || file.name);
      status.textContent = 'Uploading ' + name;
      progress.value = 0;
      try {
        await send(file, name);
      } catch (error) {
        status.textContent = `${name} was not uploaded: ${error.message}`;
        progress.hidden = true;
        return;
      }
    }
    const here = new URL(location.href);
    here.searchParams.set('done', 'uploaded');
    location.assign(here);
  };
  drop.querySelector('input').addEventListener('change', (event) => upload(event.target.files));
  drop.addEventListener('dragover', (event) => { event.preventDefault(); drop.classList.add('over'); });
  drop.addEventListener('dragleave', () => drop.classList.remove('over'));
  drop.addEventListener('drop', (event) => {
    event.preventDefault();
    drop.classList.remove('over');
    upload(event.dataTransfer.files);
  });
}

// A list is sorted by a column when its title is clicked: by numbers where all cells begin with one.
const sorts = (part) => { for (const table of part.querySelectorAll('table.sort')) {
  for (const title of table.tHead.rows[0].cells) {
    if (title.classList.contains('choose') || table.rows.length < 3 || title.querySelector('.hidden')) continue;
    const button = document.createElement('button');
    button.type = 'button';
    button.className = 'link';
    button.append(...title.childNodes);
    title.append(button);
    button.addEventListener('click', () => {
      const down = title.getAttribute('aria-sort') === 'ascending';
      for (const other of table.tHead.rows[0].cells) other.removeAttribute('aria-sort');
      title.setAttribute('aria-sort', down ? 'descending' : 'ascending');
      const body = table.tBodies[0], rows = [...body.rows];
      const text = (row) => row.cells[title.cellIndex].textContent.trim();
      const numbers = title.classList.contains('number');
      const key = (row) => numbers ? Number.parseFloat((row.cells[title.cellIndex].dataset.sort ?? text(row)).replaceAll(',', '')) || 0 : text(row);
      rows.sort((a, b) => {
        const x = key(a), y = key(b);
        return numbers ? x - y : x.localeCompare(y);
      });
      if (down) rows.reverse();
      body.append(...rows);
    });
  }
} };
sorts(document);

// The buttons for what is chosen say how many there are.
const choices = () => {
  const boxes = [...document.querySelectorAll('input[name=chosen]')];
  const n = boxes.filter((box) => box.checked).length;
  for (const button of document.querySelectorAll('[data-chosen]')) {
    button.dataset.text ??= button.textContent;
    button.disabled = n === 0;
    button.textContent = n === 0 ? button.dataset.text : `${button.dataset.text} (${n})`;
  }
  for (const all of document.querySelectorAll('[data-choose-all]')) {
    all.checked = n > 0 && n === boxes.length;
    all.indeterminate = n > 0 && !all.checked;
  }
};
document.addEventListener('change', (event) => {
  if (event.target.matches('[data-choose-all]')) for (const box of document.querySelectorAll('input[name=chosen]')) box.checked = event.target.checked;
  choices();
});
choices();

// What containers and tables have is counted one after another, once the list is shown.
(async () => {
  for (const cell of document.querySelectorAll('[data-count]')) {
    try {
      const answer = await fetch(cell.dataset.count, { headers: { Accept: 'application/json' } });
      if (!answer.ok) continue; // deleted meanwhile
      const counted = await answer.json();
      cell.textContent = counted.count;
      if (counted.size) {
        cell.nextElementSibling.textContent = counted.size;
        cell.nextElementSibling.dataset.sort = counted.bytes;
      }
    } catch { return; } // the page is left
  }
})();

// Keys: / goes to the first search field, g and a letter to a page, ? shows them.
const pages = { h: '/ui/', r: '/ui/requests', f: '/ui/functions', w: '/ui/workers', c: '/ui/control', e: '/ui/events' };
const links = [...document.querySelectorAll('.accounts details[open] a')];
for (const [key, part] of [['b', 'containers'], ['q', 'queues'], ['t', 'tables'], ['o', 'workflows'], ['s', 'search']]) {
  const link = links.find((a) => a.pathname.endsWith('/' + part));
  if (link) pages[key] = link.href;
}
const keys = document.getElementById('keys');
document.querySelector('[data-keys]')?.addEventListener('click', () => keys.showModal());
let gone = 0;
document.addEventListener('keydown', (event) => {
  if (event.target.closest('input, textarea, select, dialog') || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === '/') {
    const field = document.querySelector('main [role=search] input');
    if (field) { event.preventDefault(); field.focus(); }
  } else if (event.key === '?') {
    keys.showModal();
  } else if (event.key === 'g') {
    gone = event.timeStamp;
  } else if (pages[event.key] && event.timeStamp - gone < 1000) {
    location.assign(pages[event.key]);
  }
});
