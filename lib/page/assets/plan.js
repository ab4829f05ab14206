'use strict';
// The parts of a tensor: where they come from, on the left, and where they are, on the right; and
// the bytes between the files of a plan. The data is described in tools/pictures/tensor_tree.h.

// Every leaf of the tree of names: {name, pattern, names}.
function leavesOf(data) {
  const leaves = [];
  const walk = (nodes, before) => {
    for (const node of nodes) {
      const name = before + node[0];
      if (Array.isArray(node[1])) walk(node[1], name + '.');
      else leaves.push({name, pattern: data.patterns[node[1]], names: node[2] || []});
    }
  };
  walk(data.tree, '');
  return leaves;
}

function nameAt(leaf, index) {
  const code = leaf.names[index];
  return code ? leaf.name.slice(0, code[0]) + code[1] : leaf.name;
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

// A leaf with its codes resolved. `sides`: {sources, targets}: lists of [label, bytes] of files;
// without sources, the only source is the parameter itself.
function tensorOf(leaf, sides) {
  const {s, t, p, c, f} = leaf.pattern;
  const end = (files, [file, dtype, shape], number) => ({
    name: nameAt(leaf, number),
    label: files ? files[file][0] : nameAt(leaf, number),
    dtype,
    shape,
  });
  const sources = s.map((code, i) => end(sides.sources, code, i));
  const targets = t.map((code, i) => end(sides.targets, code, s.length + i));
  const parts = c.map(([from, to, source, target, param, logical]) => {
    const box = boxOf(logical, p[param][0]);
    return {
      from,
      to,
      source: boxOf(source, sources[from].shape),
      target: boxOf(target, targets[to].shape),
      param: nameAt(leaf, s.length + t.length + param),
      box,
      shape: p[param][0],
      heads: headsText(box, p[param]),
    };
  });
  const fills = f.map(([to, box, value]) => ({to, target: boxOf(box, targets[to].shape), value}));
  return {name: leaf.name, bytes: leaf.pattern.b, sources, targets, parts, fills};
}

// The dimension that the boxes cut: the first in which one of them is not the whole shape.
function axisOf(boxes, shape) {
  for (let d = 0; d < shape.length; ++d)
    if (boxes.some(box => box.extent[d] < shape[d])) return d;
  return 0;
}

function shorten(text, columns) {
  if (text.length <= columns) return text;
  if (columns < 5) return text.slice(0, Math.max(columns, 0));
  const tail = Math.ceil((columns - 3) / 2);
  return text.slice(0, columns - 3 - tail) + '...' + text.slice(-tail);
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
// sub, weight}; bands(place): the elements between, where place(side, index, from, to) is the part
// of a bar between two shares of it.
function drawColumns(host, left, right, bands) {
  const kBar = 12;
  const most = Math.max(left.length, right.length);
  const row = most <= 8 ? 46 : most <= 24 ? 32 : 22;
  const height = Math.max(most * row, 90);
  const drawing = el('svg:svg', {role: 'img', 'aria-label': 'from the left to the right'});
  const draw = () => {
    const width = Math.max(host.clientWidth, 280);
    const label = Math.min(Math.floor(width * 0.36), 300);
    const [x1, x2] = [label, width - label];
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
      const columns = Math.floor((label - kBar - 6) / 6.6);
      const lines = bar.height >= 30 && end.sub ? [end.title, end.sub] : [end.title];
      const middle = bar.y + bar.height / 2 + (lines.length === 1 ? 4 : -3);
      return el('svg:g', {},
          el('svg:rect', {class: side === 0 ? 'end' : 'f' + i % 8, x, y: bar.y.toFixed(1), width: kBar,
            height: bar.height.toFixed(1), rx: 2}),
          ...lines.map((line, n) => el('svg:text', {class: n === 0 ? 'label' : 'axis', x: text,
            y: (middle + 14 * n).toFixed(1), 'text-anchor': anchor}, shorten(line, columns))),
          el('svg:title', {}, [end.title, end.sub].filter(Boolean).join(', ')));
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

// The part of a bar along its axis, as two shares.
function shareOf(box, shape, axis) {
  if (shape.length === 0 || shape[axis] === 0) return [0, 1];
  return [box.lo[axis] / shape[axis], (box.lo[axis] + box.extent[axis]) / shape[axis]];
}

// "self_attn.q_proj.weight"
function tailOf(name) {
  return name.split('.').slice(-3).join('.');
}

// The part of a parameter in words: "heads 0 to 3", "rows 0 to 511", "all of it".
function partText(part, shape) {
  if (part.heads) return (part.heads.includes(' ') ? 'heads ' : 'head ') + part.heads;
  const axis = axisOf([part.box], shape);
  if (shape.length === 0 || part.box.extent[axis] === shape[axis]) return 'all of it';
  const [first, last] = [part.box.lo[axis], part.box.lo[axis] + part.box.extent[axis] - 1];
  return (['rows ', 'columns '][axis] || 'indexes ') + first + ' to ' + last;
}

function drawParts(host, tensor) {
  const axisIn = (parts, box, shape) => axisOf(parts.map(part => part[box]), shape);
  const left = tensor.sources.map((end, i) => ({
    title: tailOf(end.name),
    sub: [end.label === end.name ? '' : end.label, end.dtype + ' ' + shapeText(end.shape)].filter(Boolean).join(', '),
    weight: 1,
    axis: axisIn(tensor.parts.filter(part => part.from === i), 'source', end.shape),
  }));
  const right = tensor.targets.map((end, i) => {
    const parts = tensor.parts.filter(part => part.to === i);
    const part = parts.length === 1 ? partText(parts[0], parts[0].shape) + ', ' : '';
    return {title: end.label, sub: part + end.dtype + ' ' + shapeText(end.shape), weight: 1,
      axis: axisIn(parts, 'target', end.shape)};
  });
  drawColumns(host, left, right, (place, x1, x2) => [
    ...tensor.parts.map(part => band(
      x1, place(0, part.from, ...shareOf(part.source, tensor.sources[part.from].shape, left[part.from].axis)),
      x2, place(1, part.to, ...shareOf(part.target, tensor.targets[part.to].shape, right[part.to].axis)),
      part.to, part.param + boxText(part.box) + (part.heads ? ', heads ' + part.heads : '') + ' to ' +
          tensor.targets[part.to].label)),
    ...tensor.fills.map(fill => {
      const share = shareOf(fill.target, tensor.targets[fill.to].shape,
        axisOf([fill.target], tensor.targets[fill.to].shape));
      const at = place(1, fill.to, ...share);
      return el('svg:rect', {class: 'fill', x: x2 - 8, y: at.y.toFixed(1), width: 8, height: at.height.toFixed(1)},
        el('svg:title', {}, fill.value === 0 ? 'padding: zeros' : 'the constant ' + fill.value));
    }),
  ]);
}

// Shows a tensor in #chosen: its facts, the picture of its parts, and the same as a table.
function chooseTensor(leaf, sides) {
  const host = document.getElementById('chosen');
  const tensor = tensorOf(leaf, sides);
  const end = tensor.sources[0] || tensor.targets[0];
  const files = new Set(tensor.targets.map(target => target.label)).size;
  const picture = el('div', {class: 'columns'});
  const table = el('div', {id: 'parts'});
  host.replaceChildren(
      el('h3', {tabindex: -1, 'data-name': tensor.name}, ...nameNodes(tensor.name)),
      el('p', {class: 'soft'}, [end.dtype, shapeText(end.shape), bytesText(tensor.bytes),
        files === 1 ? 'in 1 file' : 'in ' + grouped(files) + ' files'].join(', ')), picture, table);
  if (tensor.parts.length > 0 || tensor.fills.length > 0) drawParts(picture, tensor);
  const named = [{head: sides.sources ? 'to' : 'held by', value: row => tensor.targets[row.to].label}];
  if (tensor.parts.length === 0) {  // no parameter is known: each file has its own tensor
    named.push({head: 'shape', value: row => shapeText(tensor.targets[row.to].shape)});
    dataTable(table, named, tensor.targets.map((_, to) => ({to})), {label: 'filter the files', filter: files > 20});
    return;
  }
  const otherName = name => name === tensor.name ? '' : name;
  const columns = [...named,
    {head: 'part', value: row => boxText(row.box)},
    {head: 'heads', value: row => row.heads || '-'},
    {head: 'there as', value: row => otherName(tensor.targets[row.to].name) + boxText(row.target)},
  ];
  if (sides.sources)
    columns.push({head: 'from', value: row => tensor.sources[row.from].label},
      {head: 'where it is', value: row => otherName(tensor.sources[row.from].name) + boxText(row.source)});
  dataTable(table, columns, tensor.parts, {label: 'filter the parts', filter: tensor.parts.length > 20});
}

// The tensor to begin with: the first of those in the most parts.
function firstChoice(leaves) {
  const parts = leaf => leaf.pattern.c.length + (leaf.pattern.p[0] && leaf.pattern.p[0][1] ? 0.5 : 0);
  return leaves.reduce((best, leaf) => best && parts(best) >= parts(leaf) ? best : leaf, null);
}

// All names, each a button that chooses it.
function nameTable(host, leaves, choose, leftOut) {
  dataTable(host, [
    {head: 'name', value: leaf => leaf.name, cell: leaf => [el('button', {type: 'button', class: 'link',
      'data-name': leaf.name, onclick: () => choose(leaf, true)}, ...nameNodes(leaf.name))]},
    {head: 'dtype', value: leaf => (leaf.pattern.s[0] || leaf.pattern.t[0])[1]},
    {head: 'shape', value: leaf => shapeText((leaf.pattern.s[0] || leaf.pattern.t[0])[2])},
    {head: 'bytes', value: leaf => leaf.pattern.b, cell: leaf => bytesText(leaf.pattern.b), right: true},
    {head: 'in files', value: leaf => new Set(leaf.pattern.t.map(end => end[0])).size, right: true},
  ], leaves, {label: 'filter the names'});
  if (leftOut > 0) host.append(el('p', {class: 'soft'}, grouped(leftOut) +
      ' smaller tensors are left out: a page has room for so many names.'));
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
  const [left, right] = [grouping(data.sources), grouping(data.targets)];
  const flows = new Map();
  for (const [from, to, bytes] of data.flows) {
    const key = Math.floor(from / left.size) + ' ' + Math.floor(to / right.size);
    flows.set(key, (flows.get(key) || 0) + bytes);
  }
  const picture = el('div', {class: 'columns'});
  host.append(picture);
  const ends = groups => groups.map(({title, bytes}) => ({title, sub: bytesText(bytes), weight: bytes}));
  drawColumns(picture, ends(left.groups), ends(right.groups), (place, x1, x2) => {
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
  ], data.flows, {label: 'filter the files', filter: data.flows.length > 20});
}

function showPlan() {
  if (!document.getElementById('plan')) return;
  const data = dataOf('plan');
  const leaves = leavesOf(data);
  const choose = (leaf, asked) => {
    chooseTensor(leaf, data);
    if (asked) document.querySelector('#chosen h3').focus();
  };
  drawFlows(document.getElementById('flows'), data);
  nameTable(document.getElementById('tensors'), leaves, choose, data.left_out);
  if (leaves.length > 0) choose(firstChoice(leaves), false);
}
showPlan();
