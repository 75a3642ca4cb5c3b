/** Removes the drafts of other states, before any module reads them. */
localStorage.clear();
