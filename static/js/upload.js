/* How far an upload has come. Without this script the form is sent as any other. */
"use strict";

for (const form of document.querySelectorAll("form[enctype='multipart/form-data']")) {
  const files = form.querySelector("input[type=file]");
  const button = form.querySelector("button");
  if (!files || !button) continue;

  const shown = document.createElement("p");
  shown.className = "upload-progress";
  shown.hidden = true;
  const bar = document.createElement("progress");
  bar.max = 100;
  bar.setAttribute("aria-label", "Uploaded");
  const words = document.createElement("span");
  words.setAttribute("role", "status");
  shown.append(bar, " ", words);
  form.append(shown);

  const say = (text) => { if (words.textContent !== text) words.textContent = text; };
  const mebibytes = (bytes) => `${(bytes / 1048576).toFixed(1)} MiB`;

  form.addEventListener("submit", (event) => {
    if (!files.files.length) return;
    event.preventDefault();
    const request = new XMLHttpRequest();
    shown.hidden = false;
    button.disabled = true;
    let told = -1;
    request.upload.addEventListener("progress", (now) => {
      if (!now.lengthComputable) return;
      const percent = Math.floor((100 * now.loaded) / now.total);
      bar.value = percent;
      if (Math.floor(percent / 10) === told) return; // a screen reader hears every tenth
      told = Math.floor(percent / 10);
      say(`${percent} % of ${mebibytes(now.total)}`);
    });
    request.upload.addEventListener("load", () => {
      bar.value = 100;
      say("All there. Reading…");
    });
    request.addEventListener("load", () => {
      if (request.responseURL && request.responseURL !== form.action) {
        window.location.assign(request.responseURL);
        return;
      }
      const answer = new DOMParser().parseFromString(request.responseText, "text/html");
      const main = answer.querySelector("main");
      if (main && request.status < 500) {
        document.querySelector("main").replaceWith(main);
        const wrong = main.querySelector("[aria-invalid=true], .errorlist");
        if (wrong) wrong.scrollIntoView();
      } else {
        button.disabled = false;
        say(`The server answered ${request.status}. Nothing was taken in; try again.`);
      }
    });
    request.addEventListener("error", () => {
      button.disabled = false;
      say("The connection broke. Nothing was taken in; try again.");
    });
    request.open("POST", form.action);
    request.send(new FormData(form));
  });
}
