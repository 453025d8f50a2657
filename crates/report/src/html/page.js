"use strict";
// Sorting: a click on a title sorts by it, a second click turns the order round. Empty values stay last.
for (const table of document.querySelectorAll("table.sortable")) {
  const titles = [...table.tHead.rows[0].cells];
  titles.forEach((title, at) => title.querySelector("button")?.addEventListener("click", () => {
    const down = title.ariaSort ? title.ariaSort === "ascending" : title.classList.contains("n");
    titles.forEach((other) => other.removeAttribute("aria-sort"));
    title.setAttribute("aria-sort", down ? "descending" : "ascending");
    const value = (row) => row.cells[at].dataset.v ?? "";
    const rows = [...table.tBodies[0].rows].sort((a, b) => {
      const [x, y] = [value(a), value(b)];
      if (x === "" || y === "") return (x === "") - (y === "");
      const order = title.classList.contains("n") ? x - y : x.localeCompare(y, undefined, { numeric: true });
      return down ? -order : order;
    });
    table.tBodies[0].append(...rows);
  }));
}
// The legend switches runs on and off in all charts.
const hidden = new Set();
for (const button of document.querySelectorAll(".legend button")) {
  button.addEventListener("click", () => {
    const run = Number(button.dataset.run);
    const show = hidden.delete(run) || !hidden.add(run);
    button.setAttribute("aria-pressed", String(show));
    document.querySelectorAll(".run-" + run).forEach((curve) => { curve.style.display = show ? "" : "none"; });
  });
}
// Values under the pointer: the nearest place on the x axis, and every curve's value there.
for (const plot of document.querySelectorAll(".plot")) {
  const svg = plot.querySelector("svg"), tip = plot.querySelector(".tip"), cursor = plot.querySelector(".cursor");
  const dots = [...plot.querySelectorAll(".dot")], curves = JSON.parse(svg.dataset.points), near = 8;
  const nearest = (points, x) => points.reduce((best, p) => (!best || Math.abs(p[0] - x) < Math.abs(best[0] - x) ? p : best), null);
  const clear = () => {
    tip.hidden = true;
    cursor.style.visibility = "hidden";
    dots.forEach((dot) => { dot.style.visibility = "hidden"; });
  };
  svg.addEventListener("pointerleave", clear);
  svg.addEventListener("pointermove", (event) => {
    clear();
    const box = svg.getBoundingClientRect(), width = svg.viewBox.baseVal.width;
    const x = ((event.clientX - box.left) / box.width) * width;
    const shown = curves.map((curve) => (hidden.has(curve.run) ? null : nearest(curve.points, x)));
    const at = nearest(shown.filter(Boolean), x);
    if (!at) return;
    tip.replaceChildren(Object.assign(document.createElement("b"), { textContent: at[2] }));
    shown.forEach((point, i) => {
      if (!point || Math.abs(point[0] - at[0]) > near) return;
      dots[i].setAttribute("cx", point[0]);
      dots[i].setAttribute("cy", point[1]);
      dots[i].style.visibility = "visible";
      const line = document.createElement("div"), key = document.createElement("span"), value = document.createElement("span");
      key.className = "key r" + (curves[i].run % 10);
      value.className = "v";
      value.textContent = point[3] + (point[2] === at[2] ? "" : " (" + point[2] + ")");
      line.append(key, curves[i].name + ", " + curves[i].what, value);
      tip.append(line);
    });
    cursor.setAttribute("x1", at[0]);
    cursor.setAttribute("x2", at[0]);
    cursor.style.visibility = "visible";
    tip.hidden = false;
    const left = (at[0] / width) * box.width;
    const room = left + 14 + tip.offsetWidth <= box.width;
    tip.style.left = (room ? left + 14 : Math.max(0, left - 14 - tip.offsetWidth)) + "px";
  });
}
