// Two lists above the claims: only those with the chosen verdict and page stay.
for (const list of document.querySelectorAll('.hypo-claims:not([data-live])')) {
  list.dataset.live = '';
  const claims = [...list.querySelectorAll('details[data-outcome]')];
  const bar = document.createElement('form');
  bar.className = 'filter';
  const choices = { outcome: 'verdict', page: 'page' };
  for (const [key, word] of Object.entries(choices)) {
    const label = document.createElement('label'), select = document.createElement('select');
    label.textContent = `${word} `;
    select.name = key;
    const counts = new Map();
    for (const claim of claims) counts.set(claim.dataset[key], (counts.get(claim.dataset[key]) || 0) + 1);
    select.append(new Option(`all (${claims.length})`, ''));
    for (const [value, count] of counts) select.append(new Option(`${value} (${count})`, value));
    label.append(select);
    bar.append(label);
  }
  const apply = () => {
    const fits = claim => Object.keys(choices).every(key => !bar[key].value || bar[key].value === claim.dataset[key]);
    for (const claim of claims) claim.hidden = !fits(claim);
    for (const part of list.querySelectorAll('section')) part.hidden = !part.querySelector('details:not([hidden])');
    list.querySelector('.none').hidden = claims.some(claim => !claim.hidden);
  };
  bar.addEventListener('change', apply);
  bar.addEventListener('submit', event => event.preventDefault());
  list.prepend(bar);
  const open = () => {
    const claim = location.hash && list.querySelector(`details[id="${CSS.escape(location.hash.slice(1))}"]`);
    if (claim) claim.open = true;
  };
  addEventListener('hashchange', open);
  open();
}
