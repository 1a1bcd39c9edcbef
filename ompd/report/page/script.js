(function () {
  "use strict";
  var tools = document.getElementById("tools"), search = document.getElementById("search");
  var button = document.getElementById("open"), all = document.querySelectorAll("details");
  tools.hidden = false;
  function open_all(state) { all.forEach(function (one) { one.open = state; }); }
  button.addEventListener("click", function () {
    var state = button.textContent === "open all";
    open_all(state);
    button.textContent = state ? "fold all" : "open all";
  });
  window.addEventListener("beforeprint", function () { open_all(true); });
  search.addEventListener("input", function () {
    var wanted = search.value.toLowerCase();
    document.querySelectorAll("tbody tr, .tree li, article.group, .names li").forEach(function (row) {
      row.hidden = wanted !== "" && row.textContent.toLowerCase().indexOf(wanted) < 0;
    });
    if (wanted !== "") { open_all(true); }
  });
  document.querySelectorAll("table.sortable th").forEach(function (head, column) {
    var sort = document.createElement("button"), up = true;
    column = head.cellIndex;
    sort.type = "button";
    sort.textContent = head.textContent;
    head.textContent = "";
    head.appendChild(sort);
    if (sort.textContent === "") { sort.setAttribute("aria-label", "sort"); }
    sort.addEventListener("click", function () {
      var body = head.closest("table").tBodies[0], rows = Array.from(body.rows);
      rows.sort(function (a, b) {
        var one = a.cells[column].textContent, other = b.cells[column].textContent;
        return (up ? 1 : -1) * one.localeCompare(other, undefined, { numeric: true });
      });
      up = !up;
      rows.forEach(function (row) { body.appendChild(row); });
    });
  });
}());
