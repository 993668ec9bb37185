// Which results of a search come first, and what is quoted of them. Sphinx reads this
// file before its own searchtools.js, whose defaults the numbers of `Scorer` are.

const asked = (new URLSearchParams(location.search).get("q") ?? "").trim().toLowerCase();
// `nth_farthest`, `nn.Linear` or `RelationalMemory` is somebody's name, "gates" a word
const named = /[_.]|[a-z][A-Z]/.test(new URLSearchParams(location.search).get("q"));

// What each chapter has you write: make_site.py puts the names here.
const exercises = {"EXERCISES": []};

var Scorer = {
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 5, 1: 5, 2: -5 }, // a module is no more than what is in it
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,

  // Who asks for a word wants chapters about it, then the functions of that name, then
  // other pages that have it; who asks for a name wants what is called so.
  score: item => {
    const [page, title, , , score, , kind] = item;
    if (kind === "object" || kind === "index") {
      const module = page.replace("reference/", "tinyrmc.") + ".";
      item[1] = title.replace(module, "").replace(/^tinyrmc\.|^tasks\.\w+\./, "");
      const called = title.toLowerCase().split(".").pop() === asked.split(".").pop();
      const first = page === "reference/equations" ? 1 : 0;
      return first + (named ? 50 + score : called ? 8 : 3);
    }
    const number = Number(/^chapters\/(\d+)/.exec(page)?.[1] ?? 99);
    const written = exercises[number]?.includes(asked.replace(/\s+/g, "_"));
    const about = written ? 15 : title.toLowerCase().includes(asked) ? 5 : 0;
    if (number < 99) return score + about + 2 - number / 100;
    return score + about - (page.startsWith("reference/") || page === "CHANGELOG" ? 3 : 0);
  },
};

// A quote is of the article, without heading and buttons, of its code only if its prose
// has none of the words; it begins near the first of them.
document.addEventListener("DOMContentLoaded", () => {
  const readable = (html, anchor, left_out) => {
    const page = new DOMParser().parseFromString(html, "text/html");
    const part = anchor && page.getElementById(anchor.slice(1));
    const article = part || page.querySelector(".bd-article");
    if (!article) return "";
    article.querySelector("h1, h2, h3")?.remove();
    const furniture = ".headerlink, .run, .of, script, style, nav, button, .viewcode-link";
    article.querySelectorAll(furniture + left_out).forEach(each => each.remove());
    const blocks = "p, li, dt, dd, td, th, h2, h3, h4, pre, pre > span";
    article.querySelectorAll(blocks).forEach(each => each.append(" "));
    return article.textContent.replace(/\\[()[\]]/g, "").replace(/\s+/g, " ").trim();
  };
  Search.makeSearchSummary = (html, stems, anchor) => {
    const words = [asked, ...asked.split(/\s+/), ...stems];
    const find = text => words.map(w => text.toLowerCase().indexOf(w)).find(k => k >= 0);
    let text = readable(html, anchor, ", pre");
    if (find(text) === undefined) text = readable(html, anchor, "");
    const at = find(text) ?? 0;
    const from = at < 120 ? 0 : text.indexOf(" ", at - 100) + 1;
    const to = text.length <= from + 240 ? text.length : text.lastIndexOf(" ", from + 240);
    const quote = document.createElement("p");
    quote.className = "context";
    const ends = [from ? "… " : "", to < text.length ? " …" : ""];
    quote.textContent = ends[0] + text.slice(from, to) + ends[1];
    return text ? quote : null;
  };
});
