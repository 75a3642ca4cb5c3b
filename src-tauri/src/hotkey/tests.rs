use std::cell::RefCell;

use super::*;

/// A system in which some shortcuts belong to others.
#[derive(Default)]
struct Desk {
    taken: Vec<Shortcut>,
    ours: RefCell<Vec<Shortcut>>,
}

impl Registry for Desk {
    fn register(&self, shortcut: Shortcut) -> Result<(), String> {
        if self.taken.contains(&shortcut) || self.ours.borrow().contains(&shortcut) {
            return Err("taken".to_owned());
        }
        self.ours.borrow_mut().push(shortcut);
        Ok(())
    }

    fn unregister(&self, shortcut: Shortcut) -> Result<(), String> {
        self.ours.borrow_mut().retain(|other| *other != shortcut);
        Ok(())
    }
}

impl Desk {
    fn has_only(&self, shortcuts: &[&str]) -> bool {
        let expected: Vec<Shortcut> = shortcuts.iter().map(|text| text.parse().unwrap()).collect();
        *self.ours.borrow() == expected
    }
}

fn registered(shortcut: &str) -> HotkeyView {
    HotkeyView::Registered {
        shortcut: shortcut.to_owned(),
    }
}

fn taken(shortcut: &str) -> HotkeyView {
    HotkeyView::Taken {
        shortcut: shortcut.to_owned(),
    }
}

fn none() -> SystemShortcuts {
    SystemShortcuts::default()
}

#[test]
fn a_shortcut_takes_the_place_of_the_old_one() {
    let (desk, hotkey) = (Desk::default(), Hotkey::new(None));
    assert_eq!(hotkey.set(DEFAULT, &desk, &none()), registered(DEFAULT));
    let other = "Control+Shift+Space";
    assert_eq!(hotkey.set(other, &desk, &none()), registered(other));
    assert!(desk.has_only(&[other]));
    // The same again changes nothing.
    assert_eq!(hotkey.set(other, &desk, &none()), registered(other));
    assert_eq!(hotkey.set("", &desk, &none()), registered(""));
    assert!(desk.has_only(&[]));
}

#[test]
fn the_old_one_stays_when_the_new_one_is_taken() {
    let desk = Desk {
        taken: vec!["Alt+F1".parse().unwrap()],
        ..Desk::default()
    };
    let hotkey = Hotkey::new(None);
    hotkey.set(DEFAULT, &desk, &none());
    assert_eq!(hotkey.set("Alt+F1", &desk, &none()), taken("Alt+F1"));
    assert_eq!(hotkey.view(), registered(DEFAULT));
    assert!(desk.has_only(&[DEFAULT]));
}

#[test]
fn one_that_is_taken_at_the_start_is_shown_as_taken() {
    let desk = Desk {
        taken: vec![DEFAULT.parse().unwrap()],
        ..Desk::default()
    };
    let hotkey = Hotkey::new(None);
    hotkey.set(DEFAULT, &desk, &none());
    assert_eq!(hotkey.view(), taken(DEFAULT));
    assert_eq!(hotkey.set("Alt+F1", &desk, &none()), registered("Alt+F1"));
}

#[test]
fn keys_that_people_type_with_need_a_modifier() {
    let (desk, hotkey) = (Desk::default(), Hotkey::new(None));
    for text in ["Space", "Shift+A", "Control+Escape", "Control+", "no key"] {
        let unusable = HotkeyView::Unusable {
            shortcut: text.to_owned(),
        };
        assert_eq!(hotkey.set(text, &desk, &none()), unusable);
    }
    assert_eq!(hotkey.set("F13", &desk, &none()), registered("F13"));
    let copy = if cfg!(target_os = "macos") {
        "Super+C"
    } else {
        "Control+C"
    };
    assert_eq!(hotkey.set(copy, &desk, &none()), taken(copy));
    assert!(desk.has_only(&["F13"]));
}

#[test]
fn while_a_recorder_listens_the_shortcut_is_free() {
    let (desk, hotkey) = (Desk::default(), Hotkey::new(None));
    hotkey.set(DEFAULT, &desk, &none());
    hotkey.record(true, &desk);
    hotkey.record(true, &desk);
    assert!(desk.has_only(&[]));
    hotkey.record(false, &desk);
    assert!(desk.has_only(&[DEFAULT]));
}

#[test]
fn a_shortcut_that_was_taken_while_a_recorder_listened_is_not_said_to_be_ours() {
    let (mut desk, hotkey) = (Desk::default(), Hotkey::new(None));
    hotkey.set(DEFAULT, &desk, &none());
    hotkey.record(true, &desk);
    desk.taken.push(DEFAULT.parse().unwrap());
    hotkey.record(false, &desk);
    assert_eq!(hotkey.view(), taken(DEFAULT));
    desk.taken.clear();
    assert_eq!(hotkey.set(DEFAULT, &desk, &none()), registered(DEFAULT));
    assert!(desk.has_only(&[DEFAULT]));
}

#[test]
fn what_was_recorded_is_set_while_the_recorder_still_listens() {
    let (desk, hotkey) = (Desk::default(), Hotkey::new(None));
    hotkey.set(DEFAULT, &desk, &none());
    hotkey.record(true, &desk);
    assert_eq!(hotkey.set("Alt+F1", &desk, &none()), registered("Alt+F1"));
    hotkey.record(false, &desk);
    assert!(desk.has_only(&["Alt+F1"]));
    // Also the one that it was before.
    hotkey.record(true, &desk);
    assert_eq!(hotkey.set("Alt+F1", &desk, &none()), registered("Alt+F1"));
    hotkey.record(false, &desk);
    assert!(desk.has_only(&["Alt+F1"]));
}

#[cfg(not(target_os = "macos"))]
#[test]
fn a_wayland_session_says_why_it_has_none() {
    let wayland = |name: &str| (name == "XDG_SESSION_TYPE").then(|| "wayland".to_owned());
    let hotkey = Hotkey::new(unavailable(wayland));
    let view = hotkey.set(DEFAULT, &Desk::default(), &none());
    assert!(matches!(view, HotkeyView::Unavailable { .. }));
    assert_eq!(unavailable(|_| None), None);
}
