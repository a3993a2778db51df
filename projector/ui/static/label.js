// Keys for the answers to a case; without, the form is filled in as any other.
"use strict";

(() => {
  const form = document.getElementById("answers");
  if (!form) return;
  const all = [...form.querySelectorAll("fieldset")];
  const asked = () => all.filter((f) => !f.disabled);
  const pickedIn = (f) => f.querySelector("input:checked");

  // A question that hangs on the one before it is there when that is answered so.
  const unfold = () => {
    all.forEach((f, i) => {
      if (!f.dataset.if) return;
      const before = pickedIn(all[i - 1]);
      f.disabled = f.hidden = !before || before.value !== f.dataset.if;
    });
  };
  const go = (f) => {
    const to = f ? pickedIn(f) || f.querySelector("input") : document.getElementById("write");
    to.focus();
  };
  // The question of the focus; without one, the first that is not answered.
  const here = () => asked().find((f) => f.contains(document.activeElement)) || asked().find((f) => !pickedIn(f));

  form.addEventListener("change", unfold);
  document.addEventListener("keydown", (e) => {
    if (e.altKey || e.ctrlKey || e.metaKey) return;
    if (e.key === "s") {
      e.preventDefault();
      document.getElementById("later").click();
      return;
    }
    const at = here();
    if (e.key === "Backspace") {
      e.preventDefault();
      const fields = asked();
      const i = at ? fields.indexOf(at) : fields.length;
      go(fields[Math.max(0, (document.activeElement.id === "write" ? fields.length : i) - 1)]);
      return;
    }
    const answer = at && [...at.querySelectorAll("input")].find((r) => r.dataset.key === e.key);
    if (!answer) return;
    e.preventDefault();
    answer.checked = true;
    unfold();
    const fields = asked();
    go(fields[fields.indexOf(at) + 1]);
  });

  unfold();
  go(all.find((f) => !f.disabled && !pickedIn(f)));
})();
