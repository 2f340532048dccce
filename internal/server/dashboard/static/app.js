// The dashboard's script: what is live. Every page works without it.

const token = document.querySelector('meta[name=csrf]').content;

// Buttons that copy the text of another element.
for (const button of document.querySelectorAll('[data-copy]')) {
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
}

// Forms that destroy something ask first; without the script the server asks.
const dialog = document.getElementById('confirm');
for (const form of document.querySelectorAll('form[data-confirm]')) {
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
}

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
    source.onopen = () => { place.textContent = 'Live. What the dashboard itself sends is not shown.'; };
    source.onerror = () => { place.textContent = 'The connection is broken; trying again.'; };
    source.onmessage = (event) => {
      const template = document.createElement('template');
      template.innerHTML = event.data; // rendered and escaped by the server
      const row = template.content.firstElementChild;
      if (Number(row.dataset.number) <= last) return;
      last = Number(row.dataset.number);
      live.prepend(row);
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
for (const table of document.querySelectorAll('table.sort')) {
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
}

// The buttons for what is chosen say how many there are.
const chosen = [...document.querySelectorAll('[data-chosen]')].map((button) => ({ button, text: button.textContent }));
if (chosen.length) {
  const boxes = () => [...document.querySelectorAll('input[name=chosen]')];
  const all = document.querySelector('[data-choose-all]');
  const show = () => {
    const n = boxes().filter((box) => box.checked).length;
    for (const { button, text } of chosen) {
      button.disabled = n === 0;
      button.textContent = n === 0 ? text : `${text} (${n})`;
    }
    if (all) {
      all.checked = n > 0 && n === boxes().length;
      all.indeterminate = n > 0 && !all.checked;
    }
  };
  all?.addEventListener('change', () => { for (const box of boxes()) box.checked = all.checked; });
  document.addEventListener('change', show);
  show();
}

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
for (const [key, part] of [['b', 'containers'], ['q', 'queues'], ['t', 'tables'], ['o', 'workflows']]) {
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
