'use strict';
// The tree of names by size, which can be walked: a click or Enter goes into a part, Escape out of
// it, arrows along its neighbours. A leaf is chosen, and shown by plan.js.

// Nodes with sums: {name, full, bytes, count, children} or {name, full, bytes, count: 1, leaf}.
function treeOf(data) {
  const make = (node, before) => {
    const full = before + node[0];
    if (!Array.isArray(node[1])) {
      const leaf = leafOf(data, node, full);
      return {name: node[0], full, bytes: leaf.pattern.b, count: 1, group: leaf.pattern.g, leaf};
    }
    return sumOf(node[0], full, node[1].map(child => make(child, full + '.')));
  };
  const all = data.tree.map(node => make(node, ''));
  const [count, bytes] = data.others;
  if (count > 0) all.push({name: counted(count, 'other'), full: 'others', bytes, count, group: null, children: []});
  return sumOf('all', '', all);
}

// The smaller ones of very many neighbours are one part, which can be gone into.
function sumOf(name, full, children) {
  const kMost = 1000;
  if (children.length > kMost) {
    children = children.slice().sort((a, b) => b.bytes - a.bytes);
    const rest = children.splice(kMost - 1);
    children.push(sumOf(`${grouped(rest.length)} smaller`, full, rest));
  }
  const add = key => children.reduce((sum, child) => sum + child[key], 0);
  const largest = children.reduce((best, child) => best && best.bytes >= child.bytes ? best : child, null);
  return {name, full, children, bytes: add('bytes'), count: add('count'), group: largest ? largest.group : 0};
}

// Rectangles of these nodes within one, nearly square (Bruls, Huizing and van Wijk, 2000): rows are
// filled along the shorter side as long as that makes their worst rectangle squarer.
function squarified(nodes, x, y, width, height) {
  const sorted = nodes.filter(node => node.bytes > 0).sort((a, b) => b.bytes - a.bytes);
  const all = sorted.reduce((sum, node) => sum + node.bytes, 0);
  const scale = width * height / (all || 1);
  const placed = [];
  let at = 0;
  while (at < sorted.length && width > 0 && height > 0) {
    const side = Math.min(width, height);
    let end = at;
    let area = 0;
    let worst = Infinity;
    while (end < sorted.length) {
      const next = area + sorted[end].bytes * scale;
      const ratio = Math.max(side * side * sorted[at].bytes * scale / (next * next),
          next * next / (side * side * sorted[end].bytes * scale));
      if (ratio > worst) break;
      worst = ratio;
      area = next;
      ++end;
    }
    const thick = area / side;
    let along = 0;
    for (; at < end; ++at) {
      const length = sorted[at].bytes * scale / thick;
      placed.push(width >= height ? {node: sorted[at], x, y: y + along, width: thick, height: length}
                                  : {node: sorted[at], x: x + along, y, width: length, height: thick});
      along += length;
    }
    if (width >= height) [x, width] = [x + thick, width - thick];
    else [y, height] = [y + thick, height - thick];
  }
  return placed;
}

function showTreemap() {
  if (!document.getElementById('tree')) return;
  const kHeader = 18;
  const kMost = 4000;  // rectangles
  const data = dataOf('tree');
  const root = treeOf(data);
  const path = [root];
  while (path[0].children.length === 1 && !path[0].children[0].leaf) path[0] = path[0].children[0];
  const host = document.getElementById('treemap');
  const crumbs = el('nav', {class: 'crumbs', 'aria-label': 'the way to this part'});
  const about = el('p', {class: 'soft', role: 'status'});
  const map = el('div', {class: 'treemap', role: 'group',
    'aria-label': 'parts by size: arrows along, Enter into one, Escape out of it'});
  const legend = el('p', {class: 'groups'});
  host.append(crumbs, about, map, legend);
  let drawn = 0;

  const titleOf = node => `${shownName(node.full)}: ${bytesText(node.bytes)}, ` +
      (node.leaf ? data.groups[node.group] : counted(node.count, 'tensor'));

  // A parameter counts once here, however many ranks store parts or copies of it.
  function sumText(node) {
    if (!data.bound) return `${bytesText(node.bytes)} in ${counted(node.count, 'tensor')}`;
    const counts = {parameter: 0, 'other tensor': 0, 'smaller tensor': 0};
    const walk = each => {
      if (each.children) each.children.forEach(walk);
      const isOther = each.leaf && data.groups[each.group] === 'not parameters';
      if (each.leaf) ++counts[isOther ? 'other tensor' : 'parameter'];
      else if (each.children.length === 0) counts['smaller tensor'] += each.count;
    };
    walk(node);
    const texts = Object.keys(counts).filter(what => counts[what] > 0).map(what => counted(counts[what], what));
    return texts.join(' and ') + `, ${bytesText(node.bytes)} ` +
        (counts['other tensor'] > 0 ? 'without copies of parameters' : 'without copies');
  }

  function cellOf(name, {node, x, y, width, height}, extra) {
    const cell = el(name, {
      class: node.leaf ? 'cell g' + node.group % 8 : 'cell', title: titleOf(node), ...extra});
    Object.assign(cell.style, {left: x + 'px', top: y + 'px', width: width + 'px', height: height + 'px'});
    cell.node = node;
    if (width > 28 && height > 14)
      cell.append(el('span', {class: 'cell-name', 'aria-hidden': 'true'}, shownName(node.name)));
    return cell;
  }

  // The parts within parts, level by level as long as there is room for all of a level; a part that
  // shows none has the colour of its largest, if that has one.
  function fill(level) {
    const inside = level.map(({cell, node, width, height}) => {
      if (node.leaf || width < 24 || height < 24) return [];
      const top = height < 48 ? 2 : kHeader;
      return squarified(node.children, 2, top, width - 4, height - top - 2)
        .filter(inner => inner.width >= 3 && inner.height >= 3);
    });
    const count = inside.reduce((sum, parts) => sum + parts.length, 0);
    const next = [];
    level.forEach(({cell, node, height}, i) => {
      if (node.leaf) return;
      if (inside[i].length === 0 || drawn + count > kMost) {
        if (node.group !== null) cell.classList.add('g' + node.group % 8);
        return;
      }
      if (height < 48) cell.replaceChildren();
      for (const inner of inside[i]) {
        inner.cell = cellOf('span', inner, {'aria-hidden': 'true'});
        cell.append(inner.cell);
        next.push(inner);
      }
    });
    drawn += count;
    if (next.length > 0) fill(next);
  }

  function legendOf(node) {
    const sums = data.groups.map(() => 0);
    const walk = each => each.leaf ? (sums[each.group] += each.bytes) : each.children.forEach(walk);
    walk(node);
    const entry = (group, bytes, classes) => bytes === 0 ? '' : el('span', {'data-group': group},
      el('span', {class: classes}), `${group} ${bytesText(bytes)}, ` +
          `${(100 * bytes / (node.bytes || 1)).toFixed(1)} %`);
    legend.replaceChildren(...data.groups.map((group, i) => entry(group, sums[i], 'key g' + i % 8)),
      entry('others', node.bytes - sums.reduce((all, sum) => all + sum, 0), 'key none'));
  }

  // `focus`: the part that gets the focus; true: the first.
  function draw(focus) {
    const node = path[path.length - 1];
    const width = map.clientWidth;
    const height = node.bytes === 0 ? 0 : Math.min(Math.max(width * 0.55, 300), 600);
    map.style.height = height + 'px';
    const places = squarified(node.children, 0, 0, width, height);
    const cells = places.map(place =>
      place.cell = cellOf('button', place, {type: 'button', tabindex: -1,
        'data-name': place.node.full, 'aria-label': titleOf(place.node)}));
    drawn = cells.length;
    fill(places);
    map.replaceChildren(...cells);
    const at = cells.find(cell => cell.node === focus) || cells[0];
    if (at) at.tabIndex = 0;
    if (at && focus) at.focus();
    crumbs.replaceChildren(...path.flatMap((each, i) => [i > 0 ? ' \u203a ' : '', i + 1 < path.length
      ? el('button', {type: 'button', class: 'link', onclick: () => draw(path.splice(i + 1)[0])}, each.name)
      : el('b', {}, each.name)]));
    about.textContent = sumText(node) + (node === path[0] ? '' :
      `, ${(100 * node.bytes / (path[0].bytes || 1)).toFixed(1)} % of all`);
    legendOf(node);
  }

  const sides = {sources: null, targets: data.files};
  const choose = chooser(sides);

  function enter(node) {
    if (node.leaf) return choose(node.leaf, true);
    if (node.children.length === 0) return;
    path.push(node);
    draw(true);
  }

  map.onclick = event => {
    const own = event.target.closest('button.cell');
    if (!own) return;
    // A pointer may mean a leaf deep inside; a key means the part that has the focus.
    const meant = event.detail > 0 ? event.target.closest('.cell').node : own.node;
    enter(meant.leaf ? meant : own.node);
  };
  map.onkeydown = event => {
    const cells = [...map.children];
    const at = cells.indexOf(document.activeElement);
    const step = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1}[event.key];
    if (step && at >= 0) {
      const next = cells[(at + step + cells.length) % cells.length];
      cells[at].tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
    } else if ((event.key === 'Escape' || event.key === 'Backspace') && path.length > 1) {
      draw(path.pop());
    } else {
      return;
    }
    event.preventDefault();
  };
  window.addEventListener('resize', () => draw(map.contains(document.activeElement) && document.activeElement.node));
  draw(false);
  const leaves = leavesOf(data);
  nameTable(document.getElementById('tensors'), leaves, sides, choose, data.others);
  if (leaves.length > 0) choose(firstChoice(leaves), false);
}
showTreemap();
