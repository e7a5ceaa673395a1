// The list of applications, kept up to date by the stream. Values are always set as text, never as
// markup, to prevent script injection.
'use strict';

const $ = id => document.getElementById(id);
const topic = 'applications';
const order = ['Degraded', 'Waiting', 'Progressing', 'Unknown', 'Suspended', 'Healthy'];
let token = sessionStorage.getItem('token') || '';
let entries = new Map(); // by key
let next = new Map();    // entries of an incomplete snapshot
let lastID = '';
let drawing = false;

function say(text, down) {
  $('state').textContent = text;
  $('state').classList.toggle('down', Boolean(down));
}

// read splits a stream into events.
async function* read(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const {done, value} = await reader.read();
    if (done) return;
    rest += value;
    for (let end; (end = rest.indexOf('\n\n')) >= 0; rest = rest.slice(end + 2)) {
      const e = {event: 'change', data: ''};
      for (const line of rest.slice(0, end).split('\n')) {
        const colon = line.indexOf(':');
        if (colon > 0) e[line.slice(0, colon)] = line.slice(colon + 1).replace(/^ /, '');
      }
      yield e;
    }
  }
}

function put(into, entry) {
  if (entry.topic !== topic) return;
  if (entry.body === undefined) into.delete(entry.key);
  else into.set(entry.key, entry.body);
}

function take(e) {
  if ('id' in e) lastID = e.id;
  if (!e.data) return;
  const data = JSON.parse(e.data);
  if (e.event === 'snapshot') {
    if (data.part === 0) next = new Map();
    for (const entry of data.entries || []) put(next, entry);
    if (data.complete) entries = next;
  } else if (e.event !== 'reset' && e.event !== 'reconnect') {
    put(entries, data);
  }
  draw();
}

async function follow() {
  for (let pause = 500; ; pause = Math.min(pause * 2, 15000)) {
    try {
      // kubectl holdfast ui adds the user's credentials, so that this page needs no token.
      const headers = token ? {Authorization: 'Bearer ' + token} : {};
      if (lastID) headers['Last-Event-ID'] = lastID;
      const answer = await fetch('api/v1/stream', {headers}); // relative: the page may be served below a path prefix
      if (answer.status === 401) { ask(); return; }
      if (!answer.ok) throw new Error((await answer.json()).message);
      $('main').hidden = false;
      say('Live');
      for await (const e of read(answer.body)) { pause = 500; take(e); }
      say('Disconnected; reconnecting', true);
    } catch (err) {
      say('Last update ' + new Date().toLocaleTimeString() + ': ' + err.message, true);
    }
    await new Promise(resolve => setTimeout(resolve, pause * (0.5 + Math.random() / 2)));
  }
}

function cell(row, text, kind) {
  const td = row.insertCell();
  td.textContent = text;
  if (kind) td.className = kind;
  return td;
}

// draw batches changes until the next animation frame.
function draw() {
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(() => { drawing = false; table(); });
}

const shown = 500;

function table() {
  const filter = $('filter').value.toLowerCase();
  const apps = [...entries].filter(([key]) => !key.endsWith('#why')).map(([key, body]) => ({key, ...body}));
  const counts = {};
  for (const a of apps) counts[a.health] = (counts[a.health] || 0) + 1;
  const those = apps.filter(a => `${a.app.namespace}/${a.app.name} ${a.app.kind} ${a.health}`.toLowerCase().includes(filter));
  those.sort((a, b) => order.indexOf(a.health) - order.indexOf(b.health) || a.key.localeCompare(b.key));
  const rows = document.createElement('tbody');
  rows.id = 'rows';
  for (const a of those.slice(0, shown)) {
    const why = entries.get(a.key + '#why');
    const row = rows.insertRow();
    cell(row, a.health, 'health ' + a.health);
    cell(row, a.app.kind);
    cell(row, a.app.namespace);
    cell(row, a.app.name);
    cell(row, a.componentsReady + '/' + a.components);
    const td = cell(row, why ? why.message : a.health === 'Healthy' ? '' : a.message || '');
    if (why && why.fix) {
      const fix = document.createElement('span');
      fix.className = 'fix';
      fix.textContent = why.fix;
      td.append(fix);
    }
  }
  $('rows').replaceWith(rows);
  $('none').hidden = apps.length > 0;
  $('counts').textContent = order.filter(h => counts[h]).map(h => counts[h] + ' ' + h).join(', ') +
    (those.length > shown ? `; showing ${shown} of ${those.length}` : '');
}

// ask shows the login form and removes entries that were received with the previous token.
function ask() {
  say(token ? 'Token is not valid; enter another token' : 'Not connected', Boolean(token));
  sessionStorage.removeItem('token');
  token = lastID = '';
  entries = new Map();
  draw();
  $('main').hidden = true;
  $('login').hidden = false;
  $('token').value = '';
  $('token').focus();
}

function begin() {
  $('login').hidden = true;
  say('Connecting');
  follow();
}

$('filter').addEventListener('input', draw);
$('login').addEventListener('submit', e => {
  e.preventDefault();
  token = $('token').value.trim();
  sessionStorage.setItem('token', token);
  begin();
});
begin();
