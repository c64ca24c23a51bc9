"""The appearance and behaviour of the page of `herd eval --report`: one style sheet and a short script."""

from herdcli.evaluation.report import inline_svg

STYLE = (
    f"""
:root {{ color-scheme: light dark; --line: #d0d0d8; --soft: #f4f4f7; --text: #1c1c22; --quiet: #55555f; --page: #ffffff; --accent: #2450a8;
  --good: #0b6b45; --bad: #a3320b; {inline_svg.css_variables(False)} }}
@media (prefers-color-scheme: dark) {{
  :root {{ --line: #3b3b46; --soft: #23232b; --text: #e8e8ee; --quiet: #b4b4c0; --page: #17171c; --accent: #9db8ff; --good: #6fd3a6;
    --bad: #ffab8a; {inline_svg.css_variables(True)} }}
}}
"""
    + """
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 72rem; padding: 1rem; background: var(--page); color: var(--text); font: 1rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.2rem; margin-top: 2.5rem; border-top: 1px solid var(--line); padding-top: 1rem; }
h3 { font-size: 1rem; } a { color: var(--accent); } .quiet { color: var(--quiet); font-size: 0.9rem; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
code, pre, .digest { font-family: ui-monospace, monospace; font-size: 0.85em; overflow-wrap: anywhere; }
.skip { position: absolute; left: -99rem; } .skip:focus { position: static; }
.kind { background: var(--soft); border: 1px solid var(--line); border-radius: 0.3rem; padding: 0.1rem 0.4rem; font-size: 0.8rem; }
.wide { overflow-x: auto; } .ok { color: var(--good); } .ill { color: var(--bad); font-weight: 600; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 0.9rem; } caption { text-align: left; font-weight: 600; }
th, td { border-bottom: 1px solid var(--line); padding: 0.3rem 0.75rem 0.3rem 0; text-align: left; vertical-align: top; }
td.number, th.number { text-align: right; } tbody th { position: sticky; left: 0; background: var(--page); font-weight: 600; }
th button { all: unset; white-space: nowrap; cursor: pointer; font-weight: 600; }
th button:focus-visible { outline: 2px solid var(--accent); }
th button::after { content: " ↕"; color: var(--quiet); font-weight: 400; }
th[aria-sort=ascending] button::after { content: " ↑"; } th[aria-sort=descending] button::after { content: " ↓"; }
th.baseline, td.baseline { font-style: italic; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0.2rem 1rem; font-size: 0.9rem; }
dt { font-weight: 600; } dd { margin: 0; }
@media (max-width: 40rem) { dl { display: block; } dd { margin: 0 0 0.5rem; } }
.pictures { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 24rem), 1fr)); gap: 1rem; }
figure { margin: 0; } figcaption { font-size: 0.9rem; color: var(--quiet); } svg.plot { width: 100%; height: auto; display: block; }
svg.plot * { stroke-linejoin: round; stroke-linecap: butt; } svg.plot image { image-rendering: pixelated; }
.flow { display: flex; flex-wrap: wrap; align-items: center; gap: 0.4rem; list-style: none; padding: 0; }
.flow > li { display: flex; align-items: center; gap: 0.4rem; } .flow > li + li::before { content: "→"; color: var(--quiet); }
.flow ul { list-style: none; margin: 0; padding: 0; display: grid; gap: 0.3rem; }
.box { border: 1px solid var(--line); border-radius: 0.3rem; padding: 0.2rem 0.5rem; background: var(--soft); font-size: 0.85rem; }
.box.step { border-radius: 1rem; border-color: var(--accent); background: none; }
.made { position: relative; } pre { background: var(--soft); border: 1px solid var(--line); border-radius: 0.3rem; padding: 0.6rem;
  white-space: pre-wrap; } .made button { font: inherit; font-size: 0.85rem; padding: 0.2rem 0.8rem; cursor: pointer; color: var(--text);
  background: var(--soft); border: 1px solid var(--line); border-radius: 0.3rem; }
"""
)

SCRIPT = """
for (const button of document.querySelectorAll("th button")) button.addEventListener("click", () => {
  const head = button.closest("th"), place = [...head.parentNode.children].indexOf(head), body = head.closest("table").tBodies[0];
  const down = head.getAttribute("aria-sort") === "ascending", sign = down ? -1 : 1;
  for (const other of head.parentNode.children) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
  const value = (row) => row.children[place].dataset.value ?? row.children[place].textContent;
  const number = (text) => text === "" ? NaN : Number(text);
  body.append(...[...body.rows].sort((a, b) => {
    const x = value(a), y = value(b), m = number(x), n = number(y);
    if (Number.isNaN(m) || Number.isNaN(n)) return (x === "") - (y === "") || sign * x.localeCompare(y);
    return sign * (m - n);
  }));
});
for (const button of document.querySelectorAll("button.copy")) button.addEventListener("click", async () => {
  const text = button.closest(".made").querySelector("pre").textContent;
  const said = button.nextElementSibling;
  try { await navigator.clipboard.writeText(text); said.textContent = "copied"; }
  catch { getSelection().selectAllChildren(button.closest(".made").querySelector("pre")); said.textContent = "selected: press Ctrl+C"; }
});
"""
