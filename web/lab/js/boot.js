// Runs even where modules don't: says what is missing.
(function () {
  if (location.protocol !== 'file:') return;
  var note = document.getElementById('problem');
  note.textContent = 'Browsers load no modules from files. Serve the folder instead, for example with ' +
    '`python3 -m http.server --directory web/lab`, and open http://localhost:8000/.';
  note.hidden = false;
})();
