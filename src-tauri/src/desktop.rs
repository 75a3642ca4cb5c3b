//! The desktop that windows are placed on, in one unit for all monitors.
//!
//! On X11 the unit is the pixel. On a Mac it is the point: each monitor has its own number of
//! pixels per point, and reported values in pixels are multiplied by the scale of some monitor: a
//! monitor's area by its own, the pointer's position by that of the primary monitor, the icon's by
//! that of the monitor with its menu bar. These values are not in one coordinate system
//! (<https://github.com/tauri-apps/tauri/issues/7890>), so they are converted back to points.

use tauri::{LogicalPosition, LogicalSize, PhysicalPosition, PhysicalSize, Position, Size};

use crate::placement::{Rect, Screen, nearest};

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
    pub(crate) const NATIVE: Self = match cfg!(target_os = "macos") {
        true => Self::Point,
        false => Self::Pixel,
    };

    /// Converts a position on the desktop for Tauri.
    pub(crate) fn position(self, at: Rect) -> Position {
        match self {
            Self::Pixel => PhysicalPosition::new(at.x, at.y).into(),
            Self::Point => LogicalPosition::new(at.x, at.y).into(),
        }
    }

    /// Converts the position of a window, reported in pixels of its own scale.
    pub(crate) fn point(self, at: PhysicalPosition<i32>, scale: f64) -> (i32, i32) {
        match self {
            Self::Pixel => (at.x, at.y),
            Self::Point => (divided(at.x, scale), divided(at.y, scale)),
        }
    }

    /// Converts a size on the desktop for Tauri.
    pub(crate) fn size(self, of: Rect) -> Size {
        match self {
            Self::Pixel => {
                PhysicalSize::new(of.width.unsigned_abs(), of.height.unsigned_abs()).into()
            }
            Self::Point => LogicalSize::new(of.width, of.height).into(),
        }
    }
}

/// A monitor as reported by the system, in pixels of its own scale.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Monitor {
    /// The whole area.
    pub(crate) whole: Rect,
    /// The area without bars and docks.
    pub(crate) area: Rect,
    /// Pixels per point.
    pub(crate) scale: f64,
    /// The pointer is reported in this monitor's scale.
    pub(crate) is_primary: bool,
}

/// The desktop in its own unit.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Desktop {
    pub(crate) screens: Vec<Screen>,
    /// The pointer's position, if known.
    pub(crate) pointer: Option<(i32, i32)>,
    /// The menu-bar icon, if its position is known.
    pub(crate) icon: Option<Rect>,
}

impl Desktop {
    /// Converts reported values to `unit`.
    pub(crate) fn from_system(
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

    /// Returns the screen with the pointer, or any screen if the position is unknown.
    pub(crate) fn screen_with_pointer(&self) -> Option<Screen> {
        nearest(self.pointer.unwrap_or_default(), &self.screens)
    }
}

/// Converts the icon's position to points. The icon is in the menu bar of the monitor that contains
/// it when that monitor's own scale is used. If there are several, it is the monitor with the
/// pointer, which just clicked the icon.
fn icon_in_points(icon: Rect, monitors: &[Monitor], pointer: Option<(i32, i32)>) -> Rect {
    let has = |monitor: &Monitor, point| contains(in_points(monitor.whole, monitor.scale), point);
    let on = |monitor: &&Monitor| has(monitor, center(in_points(icon, monitor.scale)));
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

fn center(rect: Rect) -> (i32, i32) {
    (rect.x + rect.width / 2, rect.y + rect.height / 2)
}

fn contains(rect: Rect, (x, y): (i32, i32)) -> bool {
    (rect.x..rect.x + rect.width).contains(&x) && (rect.y..rect.y + rect.height).contains(&y)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::{self, Size};

    fn rect(x: i32, y: i32, width: i32, height: i32) -> Rect {
        Rect {
            x,
            y,
            width,
            height,
        }
    }

    /// A monitor of a Mac: an area in points, reported in pixels of its own scale, with a menu bar
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

    /// A Retina MacBook with a 1x monitor to its right, the most common setup.
    fn two_monitors() -> [Monitor; 2] {
        [
            monitor(0, 0, 1440, 900, 2, true),
            monitor(1440, -180, 1920, 1080, 1, false),
        ]
    }

    const PROMPT: Size = Size {
        width: 680.0,
        height: 420.0,
    };

    const CHAT: Size = Size {
        width: 440.0,
        height: 660.0,
    };

    #[test]
    fn monitors_of_different_scales_are_adjacent_in_points() {
        let desktop = Desktop::from_system(Unit::Point, &two_monitors(), None, None);
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
        let desktop = Desktop::from_system(Unit::Point, &two_monitors(), Some((4800, 600)), None);
        let at = placement::upper_third(PROMPT, &desktop.screen_with_pointer().unwrap());
        assert_eq!((at.width, at.height), (680, 420));
        assert_eq!(at.x, 1440 + (1920 - 680) / 2);
        assert!(matches!(Unit::Point.size(at), tauri::Size::Logical(_)));
        assert!(matches!(Unit::Point.position(at), Position::Logical(_)));
    }

    #[test]
    fn the_icon_is_in_the_menu_bar_that_was_clicked() {
        // The same pixels are valid on both monitors; the pointer decides.
        let icon = rect(2600, 0, 48, 48);
        let on = |pointer| {
            Desktop::from_system(Unit::Point, &two_monitors(), pointer, Some(icon))
                .icon
                .unwrap()
        };
        assert_eq!(on(Some((2 * 1310, 20))), rect(1300, 0, 24, 24));
        assert_eq!(on(Some((2 * 2610, 20))), icon);
        // Only the left monitor contains this position.
        let left = rect(200, 0, 48, 48);
        let found = Desktop::from_system(
            Unit::Point,
            &two_monitors(),
            Some((2 * 2000, 500)),
            Some(left),
        );
        assert_eq!(found.icon, Some(rect(100, 0, 24, 24)));
    }

    #[test]
    fn the_chat_opens_under_the_icon_of_either_menu_bar() {
        let under = |pointer, icon| {
            let desktop =
                Desktop::from_system(Unit::Point, &two_monitors(), Some(pointer), Some(icon));
            placement::under_icon(desktop.icon.unwrap(), CHAT, &desktop.screens)
        };
        // On the Retina monitor, too close to the edge to be centered.
        let at = under((2 * 1310, 20), rect(2600, 0, 48, 48));
        assert_eq!(at, Some(rect(1440 - 440 - 8, 28, 440, 660)));
        // On the other one, whose menu bar is above the top of the Retina monitor.
        let at = under((2 * 2610, -2 * 170), rect(2600, -180, 24, 24));
        assert_eq!(at, Some(rect(2612 - 220, -152, 440, 660)));
    }

    #[test]
    fn a_retina_monitor_left_of_the_primary_one_has_negative_points() {
        let monitors = [
            monitor(0, 0, 1920, 1080, 1, true),
            monitor(-1440, 180, 1440, 900, 2, false),
        ];
        // The pointer is in the scale of the primary monitor.
        let desktop = Desktop::from_system(Unit::Point, &monitors, Some((-700, 500)), None);
        let at = placement::upper_third(PROMPT, &desktop.screen_with_pointer().unwrap());
        assert_eq!(at, rect(-1440 + (1440 - 680) / 2, 204 + 876 / 4, 680, 420));
    }

    #[test]
    fn a_window_returns_to_its_monitor_or_to_the_one_that_is_left() {
        let desktop = Desktop::from_system(Unit::Point, &two_monitors(), None, None);
        // Where the system reports it, in pixels of the scale of its monitor.
        let returns = |at: PhysicalPosition<i32>, scale, screens| {
            placement::remembered(Unit::Point.point(at, scale), CHAT, screens)
        };
        let both = &desktop.screens[..];
        let on_retina = returns(PhysicalPosition::new(2 * 300, 2 * 100), 2.0, both);
        assert_eq!(on_retina, Some(rect(300, 100, 440, 660)));
        let on_other = PhysicalPosition::new(2000, -100);
        assert_eq!(
            returns(on_other, 1.0, both),
            Some(rect(2000, -100, 440, 660))
        );
        assert_eq!(
            returns(on_other, 1.0, &both[..1]),
            Some(rect(1000, 24, 440, 660))
        );
    }

    #[test]
    fn an_icon_outside_all_monitors_uses_the_primary_scale() {
        let icon = rect(-9000, 0, 48, 48);
        let found = Desktop::from_system(Unit::Point, &two_monitors(), None, Some(icon));
        assert_eq!(found.icon, Some(rect(-4500, 0, 24, 24)));
    }

    #[test]
    fn the_position_of_a_window_is_reported_in_its_own_scale() {
        let at = PhysicalPosition::new(2880, 200);
        assert_eq!(Unit::Point.point(at, 2.0), (1440, 100));
        assert_eq!(Unit::Pixel.point(at, 2.0), (2880, 200));
    }

    #[test]
    fn pixels_are_not_converted() {
        let monitors = two_monitors();
        let icon = Some(rect(2600, 0, 48, 48));
        let desktop = Desktop::from_system(Unit::Pixel, &monitors, Some((7, 9)), icon);
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
