"use strict";
// The slider: shows what another level would give, and moves the ring in the chart.
(function () {
  const data = document.getElementById("level-data");
  if (!data) {
    return;
  }
  const levels = JSON.parse(data.textContent).levels;
  const slider = document.getElementById("level");
  const mark = document.getElementById("sweep-mark");
  const own = document.getElementById("level-own");
  const note = document.getElementById("level-note");
  const extra = document.getElementById("level-extra");
  const parts = ["trees", "share", "disagreement", "differing", "speed_up"];

  function tied(text) {
    return text.replace(/ (%|×)/g, "\u00a0$1");
  }

  function show() {
    const level = levels[Number(slider.value)];
    document.getElementById("level-text").textContent = tied(level.level);
    for (const part of parts) {
      document.getElementById("level-" + part).textContent = tied(level[part]);
    }
    slider.setAttribute("aria-valuetext", level.spoken);
    own.hidden = !level.own;
    note.textContent = level.note;
    note.hidden = !level.note;
    if (extra) {
      extra.textContent = tied(level.extra[0]);
      document.getElementById("level-extra-detail").textContent = tied(level.extra[1]);
    }
    mark.setAttribute("cx", level.x);
    mark.setAttribute("cy", level.y);
  }

  slider.addEventListener("input", show);
  document.getElementById("level-control").hidden = false;
  // A browser may keep the place of the slider when the page is loaded again.
  show();
})();
