// The style of the report: light or dark like the reader's system. s<n> and f<n> are stroke and
// fill of curve n.
#pragma once

#include <string_view>

namespace nxdkit::trainer {

inline constexpr std::string_view kPageStyle = R"(:root {
  --back: #ffffff; --panel: #f6f7f9; --text: #1d2330; --soft: #626b7c; --line: #d9dde4;
  --c0: #2563c9; --c1: #c2410c; --c2: #15803d; --c3: #9333a8;
  --c4: #a16207; --c5: #0e7490; --c6: #be185d; --c7: #57606f;
}
@media (prefers-color-scheme: dark) {
  :root {
    --back: #14171d; --panel: #1d222b; --text: #e4e7ec; --soft: #98a1b1; --line: #343b48;
    --c0: #6ea2f5; --c1: #f59e6c; --c2: #63c784; --c3: #cf8fe0;
    --c4: #dcb54a; --c5: #5cc3d6; --c6: #f183b1; --c7: #a3adbd;
  }
}
body { background: var(--back); color: var(--text); font: 15px/1.45 system-ui, sans-serif;
  margin: 0 auto; max-width: 1440px; padding: 24px; }
h1 { font-size: 24px; margin: 0 0 16px; overflow-wrap: anywhere; }
h2 { font-size: 18px; margin: 32px 0 12px; }
small, .soft { color: var(--soft); }
.problems { border-left: 4px solid var(--c1); background: var(--panel); margin: 0 0 16px;
  padding: 8px 8px 8px 28px; }
.cards { display: flex; flex-wrap: wrap; gap: 12px; margin-bottom: 16px; }
.card { background: var(--panel); border-radius: 8px; padding: 10px 16px; min-width: 104px; }
.card span { color: var(--soft); display: block; font-size: 13px; }
.card b { font-size: 20px; font-variant-numeric: tabular-nums; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 400px), 1fr));
  gap: 16px; }
figure { background: var(--panel); border-radius: 8px; margin: 0; padding: 12px 14px; }
figcaption { margin-bottom: 4px; }
svg { display: block; width: 100%; height: auto; }
.grid { stroke: var(--line); stroke-width: 1; }
.axis { fill: var(--soft); font-size: 11px; }
.line { fill: none; stroke-width: 1.6; stroke-linejoin: round; stroke-linecap: round; }
.area { opacity: 0.35; }
.dot { opacity: 0; }
.dot:hover, .alone { opacity: 1; }
.band { opacity: 0.18; }
.s0 { stroke: var(--c0); } .s1 { stroke: var(--c1); } .s2 { stroke: var(--c2); }
.s3 { stroke: var(--c3); } .s4 { stroke: var(--c4); } .s5 { stroke: var(--c5); }
.s6 { stroke: var(--c6); } .s7 { stroke: var(--c7); }
.f0 { fill: var(--c0); background: var(--c0); } .f1 { fill: var(--c1); background: var(--c1); }
.f2 { fill: var(--c2); background: var(--c2); } .f3 { fill: var(--c3); background: var(--c3); }
.f4 { fill: var(--c4); background: var(--c4); } .f5 { fill: var(--c5); background: var(--c5); }
.f6 { fill: var(--c6); background: var(--c6); } .f7 { fill: var(--c7); background: var(--c7); }
.key { border-radius: 2px; display: inline-block; height: 10px; margin-right: 6px; width: 10px; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th { color: var(--soft); font-weight: normal; }
.legend { font-size: 13px; table-layout: fixed; width: 100%; }
.legend th:not(:first-child) { width: 58px; }
.legend th, .legend td:not(:first-child) { text-align: right; }
.legend td:first-child { padding-left: 16px; text-indent: -16px; }
.legend td { overflow: hidden; text-overflow: ellipsis; vertical-align: top; }
.data { font-size: 13px; margin: 8px 0; }
.data td, .data th { border-bottom: 1px solid var(--line); padding: 2px 14px 2px 0;
  text-align: left; vertical-align: top; }
.data td:not(:first-child) { overflow-wrap: anywhere; }
details { margin: 8px 0; overflow-x: auto; }
@media (max-width: 500px) { body { padding: 12px; } figure { padding: 10px; } }
summary { cursor: pointer; }
article { background: var(--panel); border-radius: 8px; margin: 10px 0; padding: 10px 14px; }
pre { font: 13px/1.45 ui-monospace, monospace; margin: 6px 0; max-height: 420px; overflow: auto;
  white-space: pre-wrap; overflow-wrap: anywhere; }
)";

}  // namespace nxdkit::trainer
