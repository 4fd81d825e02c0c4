(function () {
  "use strict";
  var field = document.getElementById("filter");
  var rows = document.querySelectorAll("tr[data-text]");
  document.documentElement.className += " js";
  field.addEventListener("input", function () {
    var wanted = field.value.toLowerCase();
    rows.forEach(function (row) {
      row.hidden = row.getAttribute("data-text").toLowerCase().indexOf(wanted) < 0;
    });
  });
  window.addEventListener("beforeprint", function () {
    document.querySelectorAll("details").forEach(function (part) { part.open = true; });
  });
}());
