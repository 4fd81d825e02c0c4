(function () {
  "use strict";
  var field = document.getElementById("filter");
  var rows = document.querySelectorAll("table.checks tbody tr");
  var folded = /([^\s;,]+)\[([\d,-]+)\]/g;
  document.documentElement.className += " js";
  function holds(text, wanted) {
    var name = /^(.*?)(\d+)$/.exec(wanted);
    return text.indexOf(wanted) >= 0 || name !== null && Array.from(text.matchAll(folded)).some(function (found) {
      return found[1] === name[1] && found[2].split(",").some(function (range) {
        var ends = range.split("-");
        return +ends[0] <= +name[2] && +name[2] <= +ends[ends.length - 1];
      });
    });
  }
  field.addEventListener("input", function () {
    var wanted = field.value.trim().toLowerCase();
    rows.forEach(function (row) { row.hidden = !holds(row.textContent.toLowerCase(), wanted); });
  });
  window.addEventListener("beforeprint", function () {
    document.querySelectorAll("details").forEach(function (part) { part.open = true; });
  });
}());
