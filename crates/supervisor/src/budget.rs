//! What models may use together on this machine, and whether one more fits.
