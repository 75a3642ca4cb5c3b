//! The desktop that windows are placed on, in the one unit in which its monitors fit together.
//!
//! On X11 that unit is the pixel. On a Mac it is the point: there each monitor has its own number of
//! pixels a point, and every figure that is reported in pixels was multiplied with the scale of some
//! monitor: a monitor's area with its own, the pointer's place with the primary monitor's, the
//! icon's with that of the monitor whose menu bar it is in. Those figures do not lie on one plane
//! (<https://github.com/tauri-apps/tauri/issues/7890>), so they are turned back into points.

use tauri::{LogicalPosition, LogicalSize, PhysicalPosition, PhysicalSize, Position, Size};

use crate::place::{Rect, Screen, nearest};

/// The unit of the desktop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Pixels, as on X11 and Wayland.
    Pixel,
    /// Points, as on a Mac.
    Point,
}

impl Unit {
    /// The unit of this system.
    pub(crate) const HERE: Self = match cfg!(target_os = "macos") {
        true => Self::Point,
        false => Self::Pixel,
    };

    /// A place of the desktop as windows take it.
    pub(crate) fn position(self, at: Rect) -> Position {
        match self {
            Self::Pixel => PhysicalPosition::new(at.x, at.y).into(),
            Self::Point => LogicalPosition::new(at.x, at.y).into(),
        }
    }

    /// A size on the desktop as windows take it.
    pub(crate) fn size(self, of: Rect) -> Size {
        match self {
            Self::Pixel => {
                PhysicalSize::new(of.width.unsigned_abs(), of.height.unsigned_abs()).into()
            }
            Self::Point => LogicalSize::new(of.width, of.height).into(),
        }
    }
}

/// A monitor as it is reported, in pixels of its own scale.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Monitor {
    /// All of it.
    pub(crate) whole: Rect,
    /// What of it is free of bars and docks.
    pub(crate) area: Rect,
    /// Pixels a point.
    pub(crate) scale: f64,
    /// The pointer is reported in its scale.
    pub(crate) is_primary: bool,
}

/// The desktop in its own unit.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Desktop {
    /// Its monitors.
    pub(crate) screens: Vec<Screen>,
    /// The pointer's place, if the system tells it.
    pub(crate) pointer: Option<(i32, i32)>,
    /// The menu-bar icon, if the system tells where it is.
    pub(crate) icon: Option<Rect>,
}

impl Desktop {
    /// Turns what is reported into the desktop's `unit`.
    pub(crate) fn of(
        unit: Unit,
        monitors: &[Monitor],
        pointer: Option<(i32, i32)>,
        icon: Option<Rect>,
    ) -> Self {
        if unit == Unit::Pixel {
            let screens = monitors.iter().map(|monitor| Screen {
                area: monitor.area,
                scale: monitor.scale,
            });
            return Self {
                screens: screens.collect(),
                pointer,
                icon,
            };
        }
        let primary = monitors.iter().find(|monitor| monitor.is_primary);
        let primary_scale = primary.map_or(1.0, |monitor| monitor.scale);
        let pointer = pointer.map(|(x, y)| (divided(x, primary_scale), divided(y, primary_scale)));
        let screens = monitors.iter().map(|monitor| Screen {
            area: in_points(monitor.area, monitor.scale),
            scale: 1.0,
        });
        Self {
            screens: screens.collect(),
            pointer,
            icon: icon.map(|icon| icon_in_points(icon, monitors, pointer)),
        }
    }

    /// The screen with the pointer; any where the pointer is not known.
    pub(crate) fn screen_with_pointer(&self) -> Option<Screen> {
        nearest(self.pointer.unwrap_or_default(), &self.screens)
    }
}

/// The icon is in the menu bar of the monitor on which it lies if the monitor's own scale is used.
/// Of several such monitors it is the one with the pointer, which was just clicked.
fn icon_in_points(icon: Rect, monitors: &[Monitor], pointer: Option<(i32, i32)>) -> Rect {
    let has = |monitor: &Monitor, point| contains(in_points(monitor.whole, monitor.scale), point);
    let on = |monitor: &&Monitor| has(monitor, centre(in_points(icon, monitor.scale)));
    let with_pointer = |monitor: &&Monitor| pointer.is_some_and(|at| has(monitor, at));
    let candidates = || monitors.iter().filter(on);
    let monitor = candidates()
        .find(with_pointer)
        .or_else(|| candidates().next());
    let primary = || monitors.iter().find(|monitor| monitor.is_primary);
    let scale = monitor
        .or_else(primary)
        .map_or(1.0, |monitor| monitor.scale);
    in_points(icon, scale)
}

fn in_points(rect: Rect, scale: f64) -> Rect {
    Rect {
        x: divided(rect.x, scale),
        y: divided(rect.y, scale),
        width: divided(rect.width, scale),
        height: divided(rect.height, scale),
    }
}

fn divided(pixels: i32, scale: f64) -> i32 {
    (f64::from(pixels) / scale).round() as i32
}

fn centre(rect: Rect) -> (i32, i32) {
    (rect.x + rect.width / 2, rect.y + rect.height / 2)
}

fn contains(rect: Rect, (x, y): (i32, i32)) -> bool {
    (rect.x..rect.x + rect.width).contains(&x) && (rect.y..rect.y + rect.height).contains(&y)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::{self, Size};

    fn rect(x: i32, y: i32, width: i32, height: i32) -> Rect {
        Rect {
            x,
            y,
            width,
            height,
        }
    }

    /// A monitor of a Mac: its area in points, reported in pixels of its own scale, with a menu bar
    /// of 24 points.
    fn monitor(x: i32, y: i32, width: i32, height: i32, scale: i32, is_primary: bool) -> Monitor {
        Monitor {
            whole: rect(x * scale, y * scale, width * scale, height * scale),
            area: rect(
                x * scale,
                (y + 24) * scale,
                width * scale,
                (height - 24) * scale,
            ),
            scale: f64::from(scale),
            is_primary,
        }
    }

    /// A Retina MacBook with a 1x monitor to its right: the commonest desk.
    fn desk() -> [Monitor; 2] {
        [
            monitor(0, 0, 1440, 900, 2, true),
            monitor(1440, -180, 1920, 1080, 1, false),
        ]
    }

    const PROMPT: Size = Size {
        width: 680.0,
        height: 420.0,
    };

    #[test]
    fn monitors_of_mixed_scale_lie_side_by_side_in_points() {
        let desktop = Desktop::of(Unit::Point, &desk(), None, None);
        let areas: Vec<Rect> = desktop.screens.iter().map(|screen| screen.area).collect();
        assert_eq!(
            areas,
            [rect(0, 24, 1440, 876), rect(1440, -156, 1920, 1056)]
        );
        assert!(desktop.screens.iter().all(|screen| screen.scale == 1.0));
    }

    #[test]
    fn the_prompt_keeps_its_size_and_opens_where_the_pointer_is() {
        // The pointer at (2400, 300) in points, in the primary monitor's pixels.
        let desktop = Desktop::of(Unit::Point, &desk(), Some((4800, 600)), None);
        let at = place::upper_third(PROMPT, &desktop.screen_with_pointer().unwrap());
        assert_eq!((at.width, at.height), (680, 420));
        assert_eq!(at.x, 1440 + (1920 - 680) / 2);
        assert!(matches!(Unit::Point.size(at), tauri::Size::Logical(_)));
        assert!(matches!(Unit::Point.position(at), Position::Logical(_)));
    }

    #[test]
    fn the_icon_is_found_in_the_bar_that_was_clicked() {
        // The same number of pixels is a place on either monitor; the pointer tells which.
        let icon = rect(2600, 0, 48, 48);
        let on = |pointer| {
            Desktop::of(Unit::Point, &desk(), pointer, Some(icon))
                .icon
                .unwrap()
        };
        assert_eq!(on(Some((2 * 1310, 20))), rect(1300, 0, 24, 24));
        assert_eq!(on(Some((2 * 2610, 20))), icon);
        // Only the left monitor has a place there.
        let left = rect(200, 0, 48, 48);
        let found = Desktop::of(Unit::Point, &desk(), Some((2 * 2000, 500)), Some(left));
        assert_eq!(found.icon, Some(rect(100, 0, 24, 24)));
    }

    #[test]
    fn an_icon_on_no_monitor_counts_as_in_the_primary_bar() {
        let icon = rect(-9000, 0, 48, 48);
        let found = Desktop::of(Unit::Point, &desk(), None, Some(icon));
        assert_eq!(found.icon, Some(rect(-4500, 0, 24, 24)));
    }

    #[test]
    fn pixels_stay_as_they_are() {
        let monitors = desk();
        let icon = Some(rect(2600, 0, 48, 48));
        let desktop = Desktop::of(Unit::Pixel, &monitors, Some((7, 9)), icon);
        assert_eq!((desktop.pointer, desktop.icon), (Some((7, 9)), icon));
        for (screen, monitor) in desktop.screens.iter().zip(monitors) {
            assert_eq!((screen.area, screen.scale), (monitor.area, monitor.scale));
        }
        assert!(matches!(
            Unit::Pixel.size(monitors[0].area),
            tauri::Size::Physical(_)
        ));
    }
}
