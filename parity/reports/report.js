// Filters cases by text and verdict; the page is complete without it.
const box = document.getElementById("filter");
const count = document.getElementById("count");
const cases = [...document.querySelectorAll("[data-case]")];
box.parentElement.hidden = false;
box.addEventListener("input", () => {
  const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
  let rows = 0;
  for (const one of cases) {
    one.hidden = !words.every((word) => one.dataset.case.includes(word));
    rows += one.tagName === "TR" && !one.hidden;
  }
  count.textContent = words.length ? `${rows} cases` : "";
});
