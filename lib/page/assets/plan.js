'use strict';
// The parts of a tensor: where they come from, on the left, and where they are, on the right; and
// the bytes between the files of a plan. The data is described in tools/pictures/tensor_tree.h.

// A leaf of the tree of names: {name, pattern, place, names}.
function leafOf(data, node, name) {
  return {name, pattern: data.patterns[node[1]], place: data.places[node[2]], names: node[3] || []};
}

function leavesOf(data) {
  const leaves = [];
  const walk = (nodes, before) => {
    for (const node of nodes) {
      const name = before + node[0];
      if (Array.isArray(node[1])) walk(node[1], name + '.');
      else leaves.push(leafOf(data, node, name));
    }
  };
  walk(data.tree, '');
  return leaves;
}

// The names of all sources, targets and params of a leaf.
function namesOf(leaf) {
  const names = [];
  const params = leaf.pattern.s.length + leaf.pattern.t.length;
  for (const [count, code] of leaf.names)
    for (let i = 0; i < count; ++i)
      names.push(code === 0 ? leaf.name : code === 1 ? names[names.length - params]
                                                     : leaf.name.slice(0, code[0]) + code[1]);
  while (names.length < params + leaf.pattern.p.length) names.push(leaf.name);
  return names;
}

function boxOf(code, shape) {
  if (code === 0) return {lo: shape.map(() => 0), extent: shape};
  return {lo: code.slice(0, shape.length), extent: code.slice(shape.length)};
}

function boxText(box) {
  return '[' + box.lo.map((lo, d) => lo + ':' + (lo + box.extent[d])).join(', ') + ']';
}

// "0 to 3", or "3"
function headsText(box, [, rows, dim]) {
  if (!rows) return '';
  const first = Math.floor(box.lo[dim] / rows);
  const last = Math.floor((box.lo[dim] + box.extent[dim] - 1) / rows);
  return first === last ? String(first) : first + ' to ' + last;
}

// A leaf with its codes resolved. `sides`: {sources, targets}: lists of labels of files; without
// sources, the only source is the parameter itself.
function tensorOf(leaf, sides) {
  const {s, t, p, c, f} = leaf.pattern;
  const names = namesOf(leaf);
  const end = (files, places) => ([dtype, shape], i) => ({
    name: names[places === 1 ? s.length + i : i],
    label: files ? files[leaf.place[places][i]] : '',
    dtype,
    shape,
  });
  const sources = s.map(end(sides.sources, 0));
  const targets = t.map(end(sides.targets, 1));
  const parts = c.map(([from, to, source, target, param, logical]) => {
    const box = boxOf(logical, p[param][0]);
    return {
      from,
      to,
      source: boxOf(source, sources[from].shape),
      target: boxOf(target, targets[to].shape),
      param: names[s.length + t.length + param],
      box,
      shape: p[param][0],
      headRows: p[param][1],
      headDim: p[param][2],
      heads: headsText(box, p[param]),
    };
  });
  const fills = f.map(([to, box, value, padding]) => ({to, target: boxOf(box, targets[to].shape),
    fill: padding ? 'padding: zeros' : 'the constant ' + value}));
  return {name: leaf.name, bytes: leaf.pattern.b, sources, targets, parts, fills, several: p.length > 1};
}

// The end that shows a leaf's own shape: the tensor that is written, or the parameter.
function endOf(leaf, sides) {
  return sides.sources ? leaf.pattern.t[0] : leaf.pattern.s[0] || leaf.pattern.t[0];
}

function shorten(text, columns) {
  if (text.length <= columns) return text;
  if (columns < 5) return text.slice(0, Math.max(columns, 0));
  const tail = Math.ceil((columns - 3) / 2);
  return text.slice(0, columns - 3 - tail) + '...' + text.slice(-tail);
}

// As many of the texts as fit, at least the first.
function fitted(texts, columns) {
  let line = texts[0] || '';
  for (const text of texts.slice(1)) {
    if (line.length + 2 + text.length > columns) break;
    line += ', ' + text;
  }
  return shorten(line, columns);
}

// Places bars of these weights one below the other; returns {y, height} of each.
function stacked(weights, height, gap, least) {
  const all = weights.reduce((sum, weight) => sum + weight, 0) || 1;
  const room = Math.max(height - gap * (weights.length - 1) - least * weights.length, 0);
  let y = 0;
  return weights.map(weight => {
    const bar = {y, height: least + room * weight / all};
    y += bar.height + gap;
    return bar;
  });
}

function band(x1, from, x2, to, slot, title) {
  const middle = (x1 + x2) / 2;
  const [a, b, c, d] = [from.y, to.y, to.y + to.height, from.y + from.height].map(y => y.toFixed(1));
  const path = `M${x1} ${a}C${middle} ${a} ${middle} ${b} ${x2} ${b}L${x2} ${c}` +
      `C${middle} ${c} ${middle} ${d} ${x1} ${d}Z`;
  return el('svg:path', {class: 'flow f' + slot % 8, d: path}, el('svg:title', {}, title));
}

// Two columns of bars with bands between them, drawn anew for each width. left and right: {title,
// subs, weight, whole}: the subs follow the title as far as there is room; whole is the tooltip.
// bands(place): the elements between, where place(side, index, from, to) is the part of a bar
// between two shares of it.
function drawColumns(host, label, left, right, bands) {
  const kBar = 12;
  const most = Math.max(left.length, right.length);
  const row = most <= 8 ? 46 : most <= 24 ? 32 : 22;
  const height = Math.max(most * row, 90);
  const drawing = el('svg:svg', {role: 'img', 'aria-label': label});
  const draw = () => {
    const width = Math.max(host.clientWidth, 280);
    const edge = Math.min(Math.floor(width * 0.36), 300);
    const [x1, x2] = [edge, width - edge];
    const bars = [left, right].map(ends => stacked(ends.map(end => end.weight), height, 6, row - 8));
    const place = (side, index, from, to) => {
      const bar = bars[side][index];
      const size = Math.max(bar.height * (to - from), 1.5);
      return {y: bar.y + Math.min(bar.height * from, bar.height - size), height: size};
    };
    const nodes = [left, right].flatMap((ends, side) => ends.map((end, i) => {
      const bar = bars[side][i];
      const x = side === 0 ? x1 - kBar : x2;
      const text = side === 0 ? x1 - kBar - 6 : x2 + kBar + 6;
      const anchor = side === 0 ? 'end' : 'start';
      const columns = Math.floor((edge - kBar - 6) / 6.6);
      const lines = (bar.height >= 30 ? [[end.title], end.subs] : [[end.title, ...end.subs]])
        .map(texts => fitted(texts, columns)).filter(Boolean);
      const middle = bar.y + bar.height / 2 + (lines.length === 1 ? 4 : -3);
      return el('svg:g', {},
          el('svg:rect', {class: side === 0 ? 'end' : 'f' + i % 8, x, y: bar.y.toFixed(1), width: kBar,
            height: bar.height.toFixed(1), rx: 2}),
          ...lines.map((line, n) => el('svg:text', {class: n === 0 ? 'label' : 'axis', x: text,
            y: (middle + 14 * n).toFixed(1), 'text-anchor': anchor}, line)),
          el('svg:title', {}, end.whole || [end.title, ...end.subs].join(', ')));
    }));
    drawing.setAttribute('viewBox', `0 0 ${width} ${height}`);
    drawing.replaceChildren(...bands(place, x1, x2), ...nodes);
  };
  host.replaceChildren(drawing);
  draw();
  host.redraw = draw;
}

window.addEventListener('resize', () => {
  for (const host of document.querySelectorAll('.columns')) if (host.redraw) host.redraw();
});

// The part of a bar that a box takes, as two shares: each axis divides the share of the one before.
function shareOf(box, shape) {
  let [from, size] = [0, 1];
  shape.forEach((extent, d) => {
    if (extent === 0) return;
    from += size * box.lo[d] / extent;
    size *= box.extent[d] / extent;
  });
  return [from, from + size];
}

// "self_attn.q_proj.weight"
function tailOf(name) {
  return name.split('.').slice(-3).join('.');
}

// The part of a parameter in words, every axis that is cut: "heads 0 to 3", "rows 0 to 511",
// "axis 0: 0 to 3, axis 2: 0 to 31", "all of it".
function partText({box, shape, heads, headRows, headDim}) {
  const names = shape.length === 2 ? ['rows', 'columns'] : shape.length === 1 ? ['elements'] : null;
  const texts = heads ? [(heads.includes(' ') ? 'heads ' : 'head ') + heads] : [];
  shape.forEach((extent, d) => {
    const [first, end] = [box.lo[d], box.lo[d] + box.extent[d]];
    const isWhole = box.extent[d] === extent;
    const isHeads = heads && d === headDim && first % headRows === 0 && end % headRows === 0;
    if (isWhole || isHeads) return;
    texts.push((names ? names[d] + ' ' : `axis ${d}: `) + first + (end - first > 1 ? ' to ' + (end - 1) : ''));
  });
  return texts.join(', ') || 'all of it';
}

// The parts of names, between dots, in which they differ: "4.gate_proj".
function differencesOf(names) {
  const all = names.map(name => name.split('.'));
  const fewest = Math.min(...all.map(parts => parts.length));
  const common = (most, at) => {
    let count = 0;
    while (count < most && all.every(parts => at(parts, count) === at(all[0], count))) ++count;
    return count;
  };
  const before = common(fewest - 1, (parts, i) => parts[i]);
  const after = common(fewest - 1 - before, (parts, i) => parts[parts.length - 1 - i]);
  return all.map(parts => parts.slice(before, parts.length - after).join('.'));
}

// The labels of sources: the ways in which they differ come first, and a file that they share is
// left out.
function sourceTexts(sources) {
  const tensorText = end => end.dtype + ' ' + shapeText(end.shape);
  const differ = key => sources.some(end => end[key] !== sources[0][key]);
  if (!differ('name'))
    return sources.map(end => [end.label, tailOf(end.name), tensorText(end)].filter(Boolean));
  const names = differencesOf(sources.map(end => end.name));
  return sources.map((end, i) => [names[i], ...(differ('label') ? [end.label] : []), tensorText(end)]);
}

function drawParts(host, tensor) {
  const wholeOf = end => [end.label, end.name, end.dtype + ' ' + shapeText(end.shape)].filter(Boolean).join(', ');
  const texts = sourceTexts(tensor.sources);
  const left = tensor.sources.map((end, i) =>
    ({title: texts[i][0], subs: texts[i].slice(1), weight: 1, whole: wholeOf(end)}));
  const right = tensor.targets.map((end, i) => {
    const parts = tensor.parts.filter(part => part.to === i);
    const subs = [...(parts.length === 1 ? [partText(parts[0])] : []), end.dtype + ' ' + shapeText(end.shape)];
    return {title: end.label, subs, weight: 1};
  });
  drawColumns(host, 'the parts of ' + tensor.name, left, right, (place, x1, x2) => [
    ...tensor.parts.map(part => band(
      x1, place(0, part.from, ...shareOf(part.source, tensor.sources[part.from].shape)),
      x2, place(1, part.to, ...shareOf(part.target, tensor.targets[part.to].shape)),
      part.to, part.param + boxText(part.box) + (part.heads ? ', heads ' + part.heads : '') + ' to ' +
          tensor.targets[part.to].label)),
    ...tensor.fills.map(fill => {
      const at = place(1, fill.to, ...shareOf(fill.target, tensor.targets[fill.to].shape));
      return el('svg:rect', {class: 'fill', x: x2 - 8, y: at.y.toFixed(1), width: 8, height: at.height.toFixed(1)},
        el('svg:title', {}, fill.fill));
    }),
  ]);
}

// The table of a tensor's parts, constants last.
function partColumns(tensor, sides) {
  const named = (name, box) => (name === tensor.name ? '' : name) + boxText(box);
  const columns = [
    {head: sides.sources ? 'to' : 'held by', value: row => tensor.targets[row.to].label},
    {head: 'part', value: row => row.fill || (tensor.several ? tailOf(row.param) : '') + boxText(row.box)},
    {head: 'heads', value: row => row.heads || '-'},
    {head: sides.sources ? 'in the output tensor' : 'in the stored tensor',
      value: row => named(tensor.targets[row.to].name, row.target)},
  ];
  if (!sides.sources) return columns;
  const source = row => tensor.sources[row.from];
  return [...columns, {head: 'from', value: row => row.fill ? '-' : source(row).label},
    {head: 'in the input tensor', value: row => row.fill ? '-' : named(source(row).name, row.source)}];
}

// Shows a tensor in #chosen: its facts, the picture of its parts, and the same as a table.
function chooseTensor(leaf, sides) {
  const kMostBands = 500;
  const tensor = tensorOf(leaf, sides);
  const [dtype, shape] = endOf(leaf, sides);
  const files = new Set(leaf.place[1]).size;
  const left = leaf.pattern.n || 0;  // parts that are left out
  const picture = el('div', {class: 'columns'});
  const table = el('div', {id: 'parts'});
  const facts = [dtype, shapeText(shape), bytesText(tensor.bytes)];
  if (left === 0) facts.push(files === 1 ? 'in 1 file' : 'in ' + grouped(files) + ' files');
  document.getElementById('chosen').replaceChildren(
      el('h3', {tabindex: -1, 'data-name': tensor.name, 'aria-describedby': 'chosen-facts'},
          ...nameNodes(tensor.name)),
      el('p', {class: 'soft', id: 'chosen-facts'}, facts.join(', ')), picture, table);
  const rows = [...tensor.parts, ...tensor.fills];
  const filter = Math.max(rows.length, files) > 20;
  if (left > 0) {
    picture.append(`Its ${grouped(left)} parts have no room in a page of all tensors.`);
  } else if (rows.length === 0) {  // no parameter is known: each file has its own tensor
    dataTable(table, [{head: 'held by', value: end => end.label}, {head: 'shape', value: end => shapeText(end.shape)}],
      tensor.targets, {label: 'filter by file', filter});
  } else {
    if (rows.length <= kMostBands) drawParts(picture, tensor);
    else picture.append(`${grouped(rows.length)} parts are too many to draw.`);
    dataTable(table, partColumns(tensor, sides), rows, {label: 'filter by rank or file', filter});
  }
}

// The tensor to begin with: the first of those in the most parts.
function firstChoice(leaves) {
  const parts = leaf => leaf.pattern.c.length + (leaf.pattern.p[0] && leaf.pattern.p[0][1] ? 0.5 : 0);
  return leaves.reduce((best, leaf) => best && parts(best) >= parts(leaf) ? best : leaf, null);
}

// All names, each a button that chooses it.
function nameTable(host, leaves, sides, choose, others) {
  const elements = ([, shape]) => shape.reduce((all, extent) => all * extent, 1);
  dataTable(host, [
    {head: 'name', value: leaf => leaf.name, cell: leaf => [el('button', {type: 'button', class: 'link',
      'data-name': leaf.name, onclick: () => choose(leaf, true)}, ...nameNodes(leaf.name))]},
    {head: 'dtype', value: leaf => endOf(leaf, sides)[0]},
    {head: 'shape', value: leaf => elements(endOf(leaf, sides)), cell: leaf => shapeText(endOf(leaf, sides)[1])},
    {head: 'bytes', value: leaf => leaf.pattern.b, cell: leaf => bytesText(leaf.pattern.b), right: true},
    {head: 'parts', value: leaf => leaf.pattern.n || leaf.pattern.c.length + leaf.pattern.f.length ||
        leaf.pattern.t.length, right: true},
  ], leaves, {label: 'filter by name'});
  if (others[0] > 0) host.append(el('p', {class: 'soft'}, `${counted(others[0], 'smaller tensor')}, ` +
      `${bytesText(others[1])}, left out: a page has room for so many names.`));
}

// Shows a leaf; Escape then goes back to where it was chosen, which may have been drawn anew.
function chooser(sides) {
  return (leaf, asked) => {
    const before = document.activeElement;
    const host = before.closest('#treemap, #tensors');
    chooseTensor(leaf, sides);
    if (!asked) return;
    const heading = document.querySelector('#chosen h3');
    heading.onkeydown = event => {
      if (event.key !== 'Escape' || !host) return;
      const same = [...host.querySelectorAll('button[data-name]')]
        .find(node => node.dataset.name === before.dataset.name);
      (before.isConnected ? before : same || host.querySelector('[tabindex="0"], input')).focus();
    };
    heading.focus();
  };
}

// Up to so many bars a side; neighbours share one beyond that.
function grouping(ends) {
  const size = Math.ceil(ends.length / 24);
  const groups = [];
  for (let i = 0; i < ends.length; i += size) {
    const some = ends.slice(i, i + size);
    groups.push({
      title: some.length === 1 ? some[0][0] : some[0][0] + ' and ' + (some.length - 1) + ' more',
      bytes: some.reduce((sum, end) => sum + end[1], 0),
    });
  }
  return {size, groups};
}

function drawFlows(host, data) {
  if (data.flows === null) return host.append('Too many pairs of files to draw.');
  if (data.flows.length === 0) return host.append('No bytes are read from files.');
  const [left, right] = [grouping(data.sources), grouping(data.targets)];
  const flows = new Map();
  for (const [from, to, bytes] of data.flows) {
    const key = Math.floor(from / left.size) + ' ' + Math.floor(to / right.size);
    flows.set(key, (flows.get(key) || 0) + bytes);
  }
  const picture = el('div', {class: 'columns'});
  host.append(picture);
  const ends = groups => groups.map(({title, bytes}) => ({title, subs: [bytesText(bytes)], weight: bytes}));
  drawColumns(picture, 'the bytes from file to file', ends(left.groups), ends(right.groups), (place, x1, x2) => {
    const used = [left.groups.map(() => 0), right.groups.map(() => 0)];
    return [...flows].map(([key, bytes]) => {
      const [from, to] = key.split(' ').map(Number);
      const take = (side, index, all) => {
        const begin = used[side][index] / (all || 1);
        used[side][index] += bytes;
        return place(side, index, begin, used[side][index] / (all || 1));
      };
      return band(x1, take(0, from, left.groups[from].bytes), x2, take(1, to, right.groups[to].bytes), to,
        left.groups[from].title + ' to ' + right.groups[to].title + ': ' + bytesText(bytes));
    });
  });
  const table = el('details', {}, el('summary', {}, 'The same as a table'));
  host.append(table);
  dataTable(table, [
    {head: 'from', value: flow => data.sources[flow[0]][0]},
    {head: 'to', value: flow => data.targets[flow[1]][0]},
    {head: 'bytes', value: flow => flow[2], cell: flow => bytesText(flow[2]), right: true},
  ], data.flows, {label: 'filter by file', filter: data.flows.length > 20});
}

function showPlan() {
  if (!document.getElementById('plan')) return;
  const data = dataOf('plan');
  const leaves = leavesOf(data);
  const label = end => end[0];
  const sides = {sources: data.sources.map(label), targets: data.targets.map(label)};
  const choose = chooser(sides);
  drawFlows(document.getElementById('flows'), data);
  nameTable(document.getElementById('tensors'), leaves, sides, choose, data.others);
  if (leaves.length > 0) choose(firstChoice(leaves), false);
}
showPlan();
