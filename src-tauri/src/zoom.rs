//! The zoom of all pages: the steps of the shortcuts and of the menu.

use crate::wire::ZoomStep;

/// The zoom without a choice of the user, in percent.
const ACTUAL_SIZE: u16 = 100;

/// The sizes that the shortcuts choose from, in percent.
const STEPS: [u16; 10] = [50, 75, 85, ACTUAL_SIZE, 115, 125, 150, 175, 200, 300];

/// Returns the zoom after a step, as the settings store it: `None` for the actual size.
pub(crate) fn after(step: ZoomStep, percent: Option<u16>) -> Option<u16> {
    let now = percent.unwrap_or(ACTUAL_SIZE);
    let next = match step {
        ZoomStep::In => STEPS.into_iter().find(|one| *one > now),
        ZoomStep::Out => STEPS.into_iter().rfind(|one| *one < now),
        ZoomStep::Reset => Some(ACTUAL_SIZE),
    };
    Some(next.unwrap_or(now)).filter(|zoom| *zoom != ACTUAL_SIZE)
}

/// Returns the scale of pages for a stored zoom.
pub(crate) fn scale(percent: Option<u16>) -> f64 {
    f64::from(percent.unwrap_or(ACTUAL_SIZE)) / f64::from(ACTUAL_SIZE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ZoomStep::{In, Out, Reset};

    #[test]
    fn steps_go_from_size_to_size_and_stop_at_the_ends() {
        assert_eq!(after(In, None), Some(115));
        assert_eq!(after(Out, Some(115)), None);
        assert_eq!(after(Out, None), Some(85));
        assert_eq!(after(In, Some(120)), Some(125), "from another size");
        assert_eq!(after(In, Some(300)), Some(300));
        assert_eq!(after(Out, Some(50)), Some(50));
        assert_eq!(after(Reset, Some(175)), None);
    }

    #[test]
    fn a_missing_zoom_is_the_actual_size() {
        assert_eq!(scale(None), 1.0);
        assert_eq!(scale(Some(150)), 1.5);
    }
}
