'use strict';
// Functions that the programs of all pages share. Text from files only ever becomes text: nothing
// here parses markup. Whatever reacts to a click is a button, an input or a summary, so that keys reach it.

function dataOf(id) {
  return JSON.parse(document.getElementById(id).textContent);
}

// An element: el('b', {class: 'x', onclick: f}, 'text', child, ...); 'svg:rect' is one of a drawing.
function el(name, attributes, ...children) {
  const drawn = name.startsWith('svg:');
  const node = drawn ? document.createElementNS('http://www.w3.org/2000/svg', name.slice(4))
                     : document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (typeof value === 'function') node[key] = value;
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(key, value);
  }
  for (const child of children) node.append(child);  // there may be too many for one call
  return node;
}

function grouped(count) {
  return String(count).replace(/\B(?=(\d{3})+$)/g, ',');
}

// "1 tensor", "2 tensors".
function counted(count, what) {
  return grouped(count) + ' ' + what + (count === 1 ? '' : 's');
}

// Decimal units and three digits, as the commands print them.
function bytesText(bytes) {
  const units = ['B', 'kB', 'MB', 'GB', 'TB', 'PB', 'EB'];
  let unit = 0;
  let value = bytes;
  while (value >= 999.5 && unit + 1 < units.length) {
    value /= 1000;
    ++unit;
  }
  return (unit === 0 ? String(value) : value.toPrecision(3)) + ' ' + units[unit];
}

// Three significant digits: "0.00123", "4.57e-7"; null is "-".
function numberText(value) {
  if (value === null || value === undefined) return '-';
  if (value === 0) return '0';
  const size = Math.abs(value);
  if (size >= 1e-4 && size < 1e6) return String(Number(value.toPrecision(3)));
  return value.toExponential(2);
}

function shapeText(shape) {
  return '[' + shape.join(', ') + ']';
}

function shownName(name) {
  return name === '' ? '(no name)' : name;
}

// A long name in parts that may wrap after a dot.
function nameNodes(name) {
  if (name === '') return [shownName(name)];
  const nodes = [];
  for (const part of name.split(/(?<=\.)/)) {
    if (nodes.length > 0) nodes.push(el('wbr'));
    nodes.push(part);
  }
  return nodes;
}

const kCollator = new Intl.Collator('en', {numeric: true});  // layers.2 before layers.10

// Whether the text has all of these, one after another.
function includesAll(text, words) {
  let at = 0;
  for (const word of words) {
    const found = text.indexOf(word, at);
    if (found < 0) return false;
    at = found + word.length;
  }
  return true;
}

// A table of any number of rows in `host`: the first fifty, a button for more, a field that
// filters, and headings that sort. columns: {head, value(row), cell(row), right}; value is what is
// sorted and searched, cell (the value's text by default) what is shown: a string or nodes. label:
// the field's, which says what the first column has, since that is searched. filter:
// false leaves the field out, for a few rows. named: rows have their first value as data-name. A cell
// of a right column has its value as data-value. In the filter * is any text. Returns {filter(text)}.
function dataTable(host, columns, rows,
                   {label, sorted = -1, descending = true, filter = true, named = false} = {}) {
  const kStep = 50;
  let limit = kStep;
  let by = sorted;
  let down = descending;
  const field = el('input', {type: 'search', placeholder: label, 'aria-label': label});
  const note = el('p', {class: 'soft', role: 'status'});
  const head = el('tr');
  const body = el('tbody');
  const more = el('button', {type: 'button', onclick: showMore});

  function compare(a, b) {
    const x = columns[by].value(a);
    const y = columns[by].value(b);
    if (x === y) return 0;
    if (typeof x === 'string' && typeof y === 'string') return kCollator.compare(x, y) * (down ? -1 : 1);
    if (x === null || x === undefined) return 1;
    if (y === null || y === undefined) return -1;
    return (x < y ? -1 : 1) * (down ? -1 : 1);
  }
  function draw() {
    const words = field.value.toLowerCase().split('*');
    let found = rows;
    if (field.value) found = rows.filter(row => includesAll(String(columns[0].value(row)).toLowerCase(), words));
    if (by >= 0) found = [...found].sort(compare);
    body.replaceChildren(...found.slice(0, limit).map(row => el('tr',
        {'data-name': named ? columns[0].value(row) : null},
        ...columns.map(column => {
          const value = column.value(row);
          const shown = column.cell ? column.cell(row) : String(value);
          const short = typeof shown === 'string' && shown.length <= 24;
          return el('td', {class: [column.right && 'right', short && 'short'].filter(Boolean).join(' ') || null,
                           'data-value': column.right ? value : null},
              ...(Array.isArray(shown) ? shown : [shown]));
        }))));
    const shown = Math.min(limit, found.length);
    note.textContent = grouped(shown) + ' of ' + grouped(found.length) +
        (found.length < rows.length ? ' found, ' + grouped(rows.length) + ' in all' : '');
    more.hidden = shown === found.length;
    more.textContent = 'show more';
    [...head.children].forEach((cell, i) => {
      if (i === by) cell.setAttribute('aria-sort', down ? 'descending' : 'ascending');
      else cell.removeAttribute('aria-sort');
    });
  }
  // The button may be hidden then: the first new row gets the focus.
  function showMore() {
    const shown = body.rows.length;
    limit += 20 * kStep;
    draw();
    const row = body.rows[shown];
    row.tabIndex = -1;
    (row.querySelector('button') || row).focus();
  }
  columns.forEach((column, i) => head.append(el('th', {scope: 'col', class: column.right ? 'right' : null},
      el('button', {type: 'button', onclick: () => {
        down = by === i ? !down : Boolean(column.right);
        by = i;
        draw();
      }}, column.head))));
  function filterBy(text) {
    field.value = text;
    limit = kStep;
    draw();
  }
  field.oninput = () => filterBy(field.value);
  field.hidden = note.hidden = !filter;
  host.append(field, note, el('div', {class: 'scroll'},
      el('table', {class: 'data'}, el('thead', {}, head), body)), more);
  draw();
  return {filter: filterBy};
}
