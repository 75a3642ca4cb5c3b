//! Window positions: pure functions on rectangles, in units of the desktop (see `desktop`).
//!
//! Rule: a window is always completely on the work area of one monitor, whatever was remembered and
//! whatever monitors exist now. A larger window becomes smaller.

/// A rectangle on the desktop; `y` grows downwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Rect {
    pub(crate) x: i32,
    pub(crate) y: i32,
    pub(crate) width: i32,
    pub(crate) height: i32,
}

/// A monitor's work area and its scale.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Screen {
    /// The area without bars and docks.
    pub(crate) area: Rect,
    /// Units per point.
    pub(crate) scale: f64,
}

/// A window's size in points, as it is saved.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Size {
    pub(crate) width: f64,
    pub(crate) height: f64,
}

/// Points between a window and the edge of the work area.
const MARGIN: f64 = 8.0;

/// Points between the icon and the window under it.
const GAP: f64 = 4.0;

/// Places a window under the menu-bar icon, or above it if the bar is at the bottom, centered if
/// the screen allows. `None` without a screen.
pub(crate) fn under_icon(icon: Rect, size: Size, screens: &[Screen]) -> Option<Rect> {
    let center = (icon.x + icon.width / 2, icon.y + icon.height / 2);
    let screen = nearest(center, screens)?;
    let window = scaled_size(size, &screen);
    let area = screen.area;
    let gap = scaled(GAP, &screen);
    let is_below_middle = center.1 > area.y + area.height / 2;
    let y = match is_below_middle {
        true => icon.y - gap - window.height,
        false => icon.y + icon.height + gap,
    };
    let x = center.0 - window.width / 2;
    let at = Rect { x, y, ..window };
    // The bar is outside the work area, so the gap is the only margin at the top.
    Some(clamped(at, area, scaled(MARGIN, &screen), gap))
}

/// Places a window in the top right corner, for a tray that does not report its icon's position.
pub(crate) fn corner(size: Size, screen: &Screen) -> Rect {
    let margin = scaled(MARGIN, screen);
    placed(size, screen, |room_x, _| (room_x - margin, margin))
}

/// Centers a window horizontally, a quarter of the height from the top, so that it can grow
/// downwards.
pub(crate) fn upper_third(size: Size, screen: &Screen) -> Rect {
    placed(size, screen, |room_x, _| {
        (room_x / 2, screen.area.height / 4)
    })
}

/// Centers a window.
pub(crate) fn middle(size: Size, screen: &Screen) -> Rect {
    placed(size, screen, |room_x, room_y| (room_x / 2, room_y / 2))
}

/// Places a window at the position in the work area that `at` returns for the room around the
/// window, horizontally and vertically.
fn placed(size: Size, screen: &Screen, at: impl FnOnce(i32, i32) -> (i32, i32)) -> Rect {
    let window = scaled_size(size, screen);
    let area = screen.area;
    let (x, y) = at(area.width - window.width, area.height - window.height);
    let at = Rect {
        x: area.x + x,
        y: area.y + y,
        ..window
    };
    let margin = scaled(MARGIN, screen);
    clamped(at, area, margin, margin)
}

/// Returns the screen that contains `point`, else the nearest one: menu bars are outside the work
/// area.
pub(crate) fn nearest(point: (i32, i32), screens: &[Screen]) -> Option<Screen> {
    let outside = |at: i32, from: i32, length: i32| {
        i64::from((from - at).max(at - (from + length - 1)).max(0))
    };
    let distance = |screen: &&Screen| {
        let area = screen.area;
        let dx = outside(point.0, area.x, area.width);
        let dy = outside(point.1, area.y, area.height);
        dx * dx + dy * dy
    };
    screens.iter().min_by_key(distance).copied()
}

fn scaled(points: f64, screen: &Screen) -> i32 {
    (points * screen.scale).round() as i32
}

fn scaled_size(size: Size, screen: &Screen) -> Rect {
    Rect {
        width: scaled(size.width, screen),
        height: scaled(size.height, screen),
        ..Rect::default()
    }
}

/// Moves `window` into `area`, with `margin` at the edges and `above` at the top, if there is room.
fn clamped(window: Rect, area: Rect, margin: i32, above: i32) -> Rect {
    let fit = |at: i32, length: i32, from: i32, room: i32, before: i32| {
        let length = length.min(room - before - margin).max(1);
        let last = from + room - margin - length;
        (at.min(last).max(from + before), length)
    };
    let (x, width) = fit(window.x, window.width, area.x, area.width, margin);
    let (y, height) = fit(window.y, window.height, area.y, area.height, above);
    Rect {
        x,
        y,
        width,
        height,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHAT: Size = Size {
        width: 400.0,
        height: 600.0,
    };

    fn rect(x: i32, y: i32, width: i32, height: i32) -> Rect {
        Rect {
            x,
            y,
            width,
            height,
        }
    }

    fn screen(x: i32, y: i32, width: i32, height: i32, scale: f64) -> Screen {
        Screen {
            area: rect(x, y, width, height),
            scale,
        }
    }

    fn is_inside(window: Rect, area: Rect) -> bool {
        window.x >= area.x
            && window.y >= area.y
            && window.x + window.width <= area.x + area.width
            && window.y + window.height <= area.y + area.height
    }

    #[test]
    fn the_chat_is_centered_under_its_icon() {
        // A bar of 24 pixels on a screen of 1440 by 900.
        let screens = [screen(0, 24, 1440, 876, 1.0)];
        let at = under_icon(rect(900, 0, 24, 24), CHAT, &screens);
        assert_eq!(at, Some(rect(712, 28, 400, 600)));
    }

    #[test]
    fn a_window_stays_on_the_screen_if_the_icon_is_at_the_edge() {
        let screens = [screen(0, 24, 1440, 876, 1.0)];
        let at = under_icon(rect(1410, 0, 24, 24), CHAT, &screens);
        assert_eq!(at, Some(rect(1440 - 400 - 8, 28, 400, 600)));
        let at = under_icon(rect(0, 0, 24, 24), CHAT, &screens);
        assert_eq!(at, Some(rect(8, 28, 400, 600)));
    }

    #[test]
    fn a_bar_at_the_bottom_puts_the_window_above_it() {
        let screens = [screen(0, 0, 1280, 770, 1.0)];
        let at = under_icon(rect(1200, 774, 22, 22), CHAT, &screens).unwrap();
        // As low as the margin of the work area allows.
        assert_eq!((at.y + at.height, at.height), (762, 600));
    }

    #[test]
    fn the_monitor_with_the_icon_is_used_with_its_own_scale() {
        let screens = [
            screen(0, 25, 1440, 875, 1.0),
            screen(1440, 50, 2880, 1750, 2.0),
        ];
        let at = under_icon(rect(4000, 0, 48, 48), CHAT, &screens).unwrap();
        assert_eq!((at.width, at.height), (800, 1200));
        assert!(is_inside(at, screens[1].area));
        // A monitor to the left, with negative coordinates and not aligned.
        let left = [screen(-1920, 300, 1920, 1055, 1.0), screens[0]];
        let at = under_icon(rect(-100, 276, 24, 24), CHAT, &left).unwrap();
        assert!(is_inside(at, left[0].area));
    }

    #[test]
    fn a_window_larger_than_the_screen_becomes_smaller() {
        let small = screen(0, 0, 320, 240, 1.0);
        let huge = Size {
            width: 4000.0,
            height: 4000.0,
        };
        for at in [
            corner(huge, &small),
            upper_third(huge, &small),
            middle(huge, &small),
            under_icon(rect(300, 0, 20, 20), huge, &[small]).unwrap(),
        ] {
            assert!(is_inside(at, small.area), "{at:?}");
        }
    }

    #[test]
    fn every_position_is_on_the_work_area_for_any_size() {
        for width in (50..2000).step_by(130) {
            for height in (50..2000).step_by(170) {
                let size = Size {
                    width: f64::from(width),
                    height: f64::from(height),
                };
                for screen in [
                    screen(0, 0, 1280, 800, 1.0),
                    screen(-1000, -500, 999, 777, 1.5),
                ] {
                    let (corner, third) = (corner(size, &screen), upper_third(size, &screen));
                    let icon = rect(screen.area.x + 500, screen.area.y - 24, 24, 24);
                    let icon = under_icon(icon, size, &[screen]).unwrap();
                    for at in [corner, third, middle(size, &screen), icon] {
                        assert!(is_inside(at, screen.area), "{size:?} at {at:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn without_a_screen_there_is_no_position() {
        assert_eq!(under_icon(rect(0, 0, 1, 1), CHAT, &[]), None);
        assert_eq!(nearest((0, 0), &[]), None);
    }
}
