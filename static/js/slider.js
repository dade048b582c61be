/* A slider beside a list of steps. Without this script the list is chosen from as any other. */
"use strict";

for (const list of document.querySelectorAll("select[data-slider]")) {
  const slider = document.createElement("input");
  slider.type = "range";
  slider.min = "0";
  slider.max = String(list.options.length - 1);
  slider.step = "1";
  slider.value = String(list.selectedIndex);
  slider.setAttribute("aria-label", list.dataset.slider);
  const say = () => {
    const text = list.options[list.selectedIndex].text;
    slider.setAttribute("aria-valuetext", text);
  };
  slider.addEventListener("input", () => {
    list.selectedIndex = Number(slider.value);
    say();
  });
  // Let go of, it shows; from the keyboard the button does, so that focus stays while stepping.
  slider.addEventListener("pointerup", () => list.form.requestSubmit());
  list.addEventListener("change", () => {
    slider.value = String(list.selectedIndex);
    say();
  });
  say();
  list.after(slider);
}
