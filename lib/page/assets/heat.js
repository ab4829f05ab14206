// Heat maps of layers by modules, a strip for each step, and a table of parameters. The data:
//   rows: names of layers, and of modules outside the layers; row_stacks: the index in `stacks` of
//     each ("" outside the layers); modules: the rest of the names, with * for numbers
//   steps: the whole way first: label, update [parameters, elements, changed, ||A||, ||B - A||],
//     layers [[row, then as update], ...]
//   cells: of each step [[row, module, then as update, max abs, NaN and infinite pairs], ...];
//     null: left out
//   kinds: [[shape, dtype of A, dtype of B, elements], ...]
//   params, the worst first: [row, module, numbers for each * or 0, kind, changed, ||A||, ||B - A||,
//     max abs, mean abs, max rel, mean rel, pairs with a NaN, infinite pairs]; row -1: the third is
//     the name
{
  const data = dataOf('heat');
  const kMostCells = 6000;  // drawn at once
  const kMostBins = 300;    // of a strip

  // --- what moved

  // The state of some weights, and their ratio where it is a number.
  function moved(changed, weights, update, broken) {
    if (broken) return {state: 'broken', order: Infinity};
    if (weights === null || update === null) return {state: 'broken', order: Infinity};
    if (update === 0) return {state: changed > 0 ? 'bits' : 'same', ratio: 0, order: 0};
    if (weights === 0) return {state: 'zeros', order: Number.MAX_VALUE};
    return {state: 'moved', ratio: update / weights, order: update / weights};
  }

  const kStates = {
    broken: 'NaN or infinity',
    zeros: 'A is all zeros',
    same: 'unchanged',
    bits: 'equal numbers, other bits',  // 0 and -0
  };
  function ratioText(move) {
    if (move.state === 'bits') return '0: ' + kStates.bits;
    if (move.state === 'zeros') return 'none: ' + kStates.zeros;
    return move.state === 'broken' ? kStates.broken : numberText(move.ratio);
  }

  function cellOf([row, module, parameters, elements, changed, weights, update, maxAbs, broken]) {
    const name = data.rows[row] + (data.modules[module] === '' ? '' : '.' + data.modules[module]);
    return {row, module, parameters, elements, changed, weights, update, maxAbs, broken, name,
            ...moved(changed, weights, update, broken)};
  }

  function paramName([row, module, numbers]) {
    if (row < 0) return numbers;
    let rest = data.modules[module];
    if (numbers !== 0) {
      const each = numbers.split('.');
      rest = rest.replace(/\*/g, () => each.shift());
    }
    return data.rows[row] + (rest === '' ? '' : '.' + rest);
  }

  function paramOf(fields) {
    const [, , , kind, changed, weights, update, maxAbs, meanAbs, maxRel, meanRel, nan, infinite] = fields;
    const [shape, a, b, elements] = data.kinds[kind];
    return {name: paramName(fields), shape, dtypes: a === b ? a : a + ' \u2192 ' + b, elements, changed,
            weights, update, maxAbs, meanAbs, maxRel, meanRel, nan: nan || 0, infinite: infinite || 0,
            ...moved(changed, weights, update, (nan || 0) + (infinite || 0))};
  }

  const maps = data.steps.map((step, i) => (data.cells[i] || []).map(cellOf));

  // --- colours: one scale for all maps and strips

  // From 1, 2 or 5 times a power of ten, down (-1) or up (1).
  function round125(value, direction) {
    const power = 10 ** Math.floor(Math.log10(value));
    const steps = [1, 2, 5, 10].map(step => Number((step * power).toPrecision(1)));
    return direction < 0 ? steps.filter(step => step <= value).pop() || steps[0]
                         : steps.find(step => step >= value) || steps[3];
  }

  function scaleOf(ratios) {
    const found = ratios.filter(ratio => ratio > 0);
    if (found.length === 0) return null;
    const most = found.reduce((a, b) => Math.max(a, b));
    const least = found.reduce((a, b) => Math.min(a, b));
    const high = round125(most, 1);
    const low = Math.max(Math.min(round125(least, -1), high / 2), high * 1e-8);
    return {low, high, cut: least < low};
  }

  function shareOf(ratio) {
    const share = Math.log(ratio / scale.low) / Math.log(scale.high / scale.low);
    return Math.min(Math.max(share, 0), 1);
  }

  // Lighter and yellower for more: readable on light and dark pages, and in grey.
  const kStops = [[46, 26, 94], [46, 87, 148], [36, 146, 138], [122, 200, 78], [250, 228, 58]];
  function colourAt(share) {
    const at = share * (kStops.length - 1);
    const i = Math.min(Math.floor(at), kStops.length - 2);
    const parts = kStops[i].map((low, k) => Math.round(low + (kStops[i + 1][k] - low) * (at - i)));
    return 'rgb(' + parts.join(',') + ')';
  }
  function paint(move) {
    return move.state === 'moved' ? colourAt(shareOf(move.ratio)) : null;
  }

  const strips = data.steps.map(step => step.layers.map(([row, , , changed, weights, update]) =>
      ({row, ...moved(changed, weights, update, false)})));
  maps.forEach((cells, i) => {
    const broken = new Set(cells.filter(cell => cell.broken).map(cell => cell.row));
    for (const layer of strips[i])
      if (broken.has(layer.row)) Object.assign(layer, {state: 'broken', order: Infinity});
  });
  const scale = scaleOf([...maps, ...strips].flat().filter(move => move.state === 'moved').map(move => move.ratio));

  function legend() {
    const parts = [];
    if (scale) {
      const ticks = [];
      const decades = Math.log10(scale.high / scale.low);
      const steps = decades <= 2.1 ? [1, 2, 5] : [1];
      for (let power = Math.floor(Math.log10(scale.low)); power <= Math.log10(scale.high) + 1e-9; ++power)
        for (const step of steps) {
          const value = Number(step + 'e' + power);
          if (value >= scale.low * 0.999 && value <= scale.high * 1.001) ticks.push(value);
        }
      parts.push(el('div', {class: 'heat-scale'},
          el('div', {class: 'heat-bar', style: 'background:linear-gradient(to right,' +
              kStops.map(stop => 'rgb(' + stop.join(',') + ')').join(',') + ')'}),
          ...ticks.map((value, i) => el('span', {style: 'left:' + (100 * shareOf(value)).toFixed(2) + '%'},
              (scale.cut && i === 0 && value === scale.low ? '\u2264 ' : '') + numberText(value).replace('.00e', 'e')))));
    }
    const all = maps.flat();
    for (const [state, text] of Object.entries(kStates))
      if (all.some(cell => cell.state === state))
        parts.push(el('span', {class: 'heat-key'}, el('i', {class: 'heat-cell ' + state}), text));
    if (data.steps.some((step, i) => groupsOf(i).some(hasBlanks)))
      parts.push(el('span', {class: 'heat-key'}, 'blank: no such parameter'));
    return el('div', {class: 'heat-legend', id: 'heat-legend'}, ...parts);
  }

  // --- one map

  const host = document.getElementById('heat-map');
  const info = el('div', {id: 'heat-info'});
  const body = el('div', {class: 'heat-groups'});
  let shown = 0;         // the step
  let worstFirst = false;
  let limit = kMostCells;
  let grid = [];         // rows of drawn cells, null where there is none
  let table = null;

  function sumOf(row, layer, cells) {
    const [, parameters, elements, changed, weights, update] = layer;
    const broken = cells.reduce((sum, cell) => sum + cell.broken, 0);
    const maxAbs = cells.reduce((most, cell) => Math.max(most, cell.maxAbs), 0);
    return {row, module: -1, parameters, elements, changed, weights, update, maxAbs, broken,
            name: data.rows[row], ...moved(changed, weights, update, broken)};
  }

  // Stacks of layers in the order of the model, each with its rows and columns.
  function groupsOf(step) {
    const cellsOf = new Map();
    for (const cell of maps[step]) {
      if (!cellsOf.has(cell.row)) cellsOf.set(cell.row, []);
      cellsOf.get(cell.row).push(cell);
    }
    const groups = new Map();
    for (const layer of data.steps[step].layers) {
      const row = layer[0];
      const stack = data.row_stacks[row];
      const cells = cellsOf.get(row) || [];
      if (!groups.has(stack)) groups.set(stack, {stack: data.stacks[stack], columns: [], rows: []});
      const group = groups.get(stack);
      for (const cell of cells)
        if (!group.seen?.has(cell.module)) {
          (group.seen ||= new Set()).add(cell.module);
          group.columns.push(cell.module);
        }
      group.rows.push({row, cells, sum: sumOf(row, layer, cells),
                       worst: cells.reduce((most, cell) => Math.max(most, cell.order), 0)});
    }
    return [...groups.values()];
  }

  function hasBlanks(group) {
    return group.rows.some(line => line.cells.length < group.columns.length);
  }

  function moduleText(module) {
    const text = data.modules[module].replace(/(.)\.weight$/, '$1');
    return text === '' ? '(itself)' : text;
  }

  function rowText(row, stack) {
    return stack === '' ? data.rows[row] : data.rows[row].slice(stack.length + 1);
  }

  function describe(cell) {
    const field = (name, value, key) => el('div', {}, el('dt', {}, name), el('dd', {'data-field': key}, value));
    info.replaceChildren(
        el('b', {'data-field': 'name'}, ...nameNodes(cell.name)),
        el('dl', {},
            field('||B - A|| / ||A||', ratioText(cell), 'relative'),
            field('||B - A||', numberText(cell.update), 'update'),
            field('||A||', numberText(cell.weights), 'weights'),
            field('changed', grouped(cell.changed) + ' of ' + grouped(cell.elements), 'changed'),
            field('max abs', numberText(cell.maxAbs), 'max_abs'),
            ...(cell.broken ? [field(kStates.broken, grouped(cell.broken) + ' pairs', 'broken')] : []),
            ...(cell.parameters > 1 ? [field('parameters', grouped(cell.parameters), 'parameters')] : [])),
        el('button', {type: 'button', onclick: () => toTable(cell)}, 'show in the table'));
  }

  function toTable(cell) {
    table.filter(cell.module < 0 ? cell.name + '.' : cell.name);
    document.getElementById('heat-table').querySelector('input').focus();
  }

  function focusCell(node) {
    body.querySelectorAll('[tabindex="0"]').forEach(other => { other.tabIndex = -1; });
    node.tabIndex = 0;
    node.focus();
  }

  // The numbers of a cell take room at the bottom of the window, where it must not be.
  function keepInSight(node) {
    document.documentElement.style.scrollPaddingBottom = info.offsetHeight + 16 + 'px';
    node.scrollIntoView({block: 'nearest', inline: 'nearest'});
  }

  function cellNode(cell, y, x) {
    const node = el('td', {
      role: 'gridcell', tabindex: '-1', class: 'heat-cell ' + cell.state + (cell.module < 0 ? ' sum' : ''),
      'data-name': cell.name, 'data-relative': cell.ratio ?? '', 'data-y': y, 'data-x': x,
      'aria-label': cell.name + ': ' + ratioText(cell), 'aria-describedby': 'heat-info',
      style: cell.state === 'moved' ? 'background:' + paint(cell) : null,
      onfocus: () => { describe(cell); keepInSight(node); }, onmouseenter: () => describe(cell),
      onclick: () => focusCell(node),
      onkeydown: event => key(event, cell, y, x),
    });
    return node;
  }

  // The nearest cell in a direction; null at the edge.
  function next(y, x, down, right) {
    for (let i = y + down, k = x + right; grid[i]; i += down, k += right) {
      if (right !== 0 && k in grid[i] === false) return null;
      if (grid[i][k]) return grid[i][k];
      if (down !== 0 && k >= grid[i].length) {
        const last = grid[i].findLast(Boolean);  // of a narrower map
        if (last) return last;
      }
    }
    return null;
  }

  function key(event, cell, y, x) {
    const moves = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]};
    let node = null;
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.key in moves) node = next(y, x, ...moves[event.key]);
    else if (event.key === 'Home') node = grid[y].find(Boolean);
    else if (event.key === 'End') node = grid[y].findLast(Boolean);
    else if (event.key === 'Enter') toTable(cell);
    else return;
    event.preventDefault();
    if (node) focusCell(node);
  }

  function groupNode(group, rows) {
    const columns = group.columns;
    const sums = columns.length > 1;
    const head = el('tr', {}, el('td', {}),
        ...(sums ? [el('th', {scope: 'col'}, el('span', {}, 'together'))] : []),
        ...columns.map(module => el('th', {scope: 'col'}, el('span', {}, moduleText(module)))));
    const lines = rows.map(line => {
      const y = grid.length;
      const of = new Map(line.cells.map(cell => [cell.module, cell]));
      const cells = columns.map(module => of.get(module) || null);
      if (sums) cells.unshift(line.sum);
      const nodes = cells.map((cell, x) => cell ? cellNode(cell, y, x) : el('td', {role: 'gridcell'}));
      grid.push(nodes.map((node, x) => cells[x] ? node : null));
      return el('tr', {'data-name': data.rows[line.row]},
          el('th', {scope: 'row'}, rowText(line.row, group.stack)), ...nodes);
    });
    const title = group.stack === '' ? 'outside the layers' : group.stack;
    return el('div', {}, el('div', {class: 'heat-stack'}, title), el('div', {class: 'scroll'},
        el('table', {role: 'grid', class: 'heat', 'aria-label': title},
            el('thead', {}, head), el('tbody', {}, ...lines))));
  }

  function drawMap() {
    grid = [];
    let room = limit;
    let left = 0;
    const nodes = [];
    for (const group of groupsOf(shown)) {
      if (worstFirst) group.rows.sort((a, b) => b.worst - a.worst);
      const rows = group.rows.slice(0, Math.max(0, Math.floor(room / (group.columns.length + 1))));
      room -= rows.length * (group.columns.length + 1);
      left += group.rows.length - rows.length;
      if (rows.length > 0) nodes.push(groupNode(group, rows));
    }
    if (left > 0)
      nodes.push(el('button', {type: 'button', onclick: showMore},
          'show ' + grouped(left) + ' more rows'));
    body.replaceChildren(...nodes);
    const first = grid.flat().find(Boolean);
    if (first) first.tabIndex = 0;
    info.replaceChildren(el('span', {class: 'soft'}, 'Point at a cell, or move to it, for its numbers.'));
  }

  // The button is replaced: the first new cell gets the focus.
  function showMore() {
    const shownRows = new Set([...body.querySelectorAll('tr[data-name]')].map(row => row.dataset.name));
    limit += 4 * kMostCells;
    drawMap();
    const row = [...body.querySelectorAll('tr[data-name]')].find(each => !shownRows.has(each.dataset.name));
    const cell = row && row.querySelector('.heat-cell');
    if (cell) focusCell(cell);
  }

  // --- the strips

  // Neighbouring layers share a piece where there are very many: the worst of them.
  function stripNode(layers) {
    const size = Math.ceil(layers.length / kMostBins) || 1;
    const strip = el('span', {class: 'heat-strip', 'aria-hidden': 'true'});
    for (let i = 0; i < layers.length; i += size) {
      const worst = layers.slice(i, i + size).reduce((a, b) => (b.order > a.order ? b : a));
      const name = data.rows[worst.row];
      strip.append(el('i', {class: 'heat-cell ' + worst.state, 'data-name': name,
                            title: name + ': ' + ratioText(worst),
                            style: worst.state === 'moved' ? 'background:' + paint(worst) : null}));
    }
    return strip;
  }

  function drawStrips() {
    const list = document.getElementById('heat-steps');
    const buttons = [];
    data.steps.forEach((step, i) => {
      const [parameters, , changed, weights, update] = step.update;
      const move = moved(changed, weights, update, false);
      const button = el('button', {
        type: 'button', class: 'heat-step', 'aria-pressed': String(i === shown), 'data-name': step.label,
        disabled: data.cells[i] ? null : '', title: data.cells[i] ? null : 'its map is left out',
        'data-relative': move.ratio ?? '',
        onclick: () => {
          shown = i;
          buttons.forEach((other, k) => other.setAttribute('aria-pressed', String(k === i)));
          drawMap();
        },
      }, el('span', {}, (i === 0 ? 'whole way: ' : '') + step.label), stripNode(strips[i]),
          el('span', {class: 'right'}, parameters > 0 ? ratioText(move) : 'nothing to compare'));
      buttons.push(button);
    });
    list.replaceChildren(
        el('p', {class: 'soft'}, 'Each strip is a step, its layers from left to right. Choose one to see its map; ' +
            'the table below is of the whole way.'),
        ...buttons);
  }

  // --- the table

  function number(head, field) {
    return {head, right: true, value: param => param[field], cell: param => numberText(param[field])};
  }
  function count(head, field) {
    return {head, right: true, value: param => param[field], cell: param => grouped(param[field])};
  }

  const params = data.params.map(paramOf);
  if (data.steps.length > 1) drawStrips();
  host.append(legend(), el('p', {}, el('button', {
    type: 'button', id: 'heat-sort', 'aria-pressed': 'false',
    onclick: event => {
      worstFirst = !worstFirst;
      event.currentTarget.setAttribute('aria-pressed', String(worstFirst));
      drawMap();
    },
  }, 'worst rows first')), body, info);
  table = dataTable(document.getElementById('heat-table'), [
    {head: 'parameter', value: param => param.name, cell: param => nameNodes(param.name)},
    {head: '||B - A|| / ||A||', right: true, value: param => param.order, cell: ratioText},
    number('||B - A||', 'update'),
    number('||A||', 'weights'),
    count('changed', 'changed'),
    count('elements', 'elements'),
    number('max abs', 'maxAbs'),
    number('mean abs', 'meanAbs'),
    number('max rel', 'maxRel'),
    number('mean rel', 'meanRel'),
    ...(params.some(param => param.nan + param.infinite > 0)
            ? [count('NaN', 'nan'), count('infinite', 'infinite')] : []),
    {head: 'shape', value: param => shapeText(param.shape)},
    {head: 'dtype', value: param => param.dtypes},
  ], params, {label: 'filter by name', sorted: 1, named: true});
  drawMap();
}
