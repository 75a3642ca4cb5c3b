use std::cell::RefCell;

use super::*;

/// A system in which other programs use some shortcuts.
#[derive(Default)]
struct FakeRegistry {
    taken: Vec<Shortcut>,
    ours: RefCell<Vec<Shortcut>>,
}

impl Registry for FakeRegistry {
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

impl FakeRegistry {
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
fn a_new_shortcut_replaces_the_old_one() {
    let (registry, hotkey) = (FakeRegistry::default(), Hotkey::new(None));
    assert_eq!(hotkey.set(DEFAULT, &registry, &none()), registered(DEFAULT));
    let other = "Control+Shift+Space";
    assert_eq!(hotkey.set(other, &registry, &none()), registered(other));
    assert!(registry.has_only(&[other]));
    // Setting the same shortcut again changes nothing.
    assert_eq!(hotkey.set(other, &registry, &none()), registered(other));
    assert_eq!(hotkey.set("", &registry, &none()), registered(""));
    assert!(registry.has_only(&[]));
}

#[test]
fn the_old_shortcut_stays_if_the_new_one_is_taken() {
    let registry = FakeRegistry {
        taken: vec!["Alt+F1".parse().unwrap()],
        ..FakeRegistry::default()
    };
    let hotkey = Hotkey::new(None);
    hotkey.set(DEFAULT, &registry, &none());
    assert_eq!(hotkey.set("Alt+F1", &registry, &none()), taken("Alt+F1"));
    assert_eq!(hotkey.view(), registered(DEFAULT));
    assert!(registry.has_only(&[DEFAULT]));
}

#[test]
fn a_shortcut_that_is_taken_at_startup_is_shown_as_taken() {
    let registry = FakeRegistry {
        taken: vec![DEFAULT.parse().unwrap()],
        ..FakeRegistry::default()
    };
    let hotkey = Hotkey::new(None);
    hotkey.set(DEFAULT, &registry, &none());
    assert_eq!(hotkey.view(), taken(DEFAULT));
    assert_eq!(
        hotkey.set("Alt+F1", &registry, &none()),
        registered("Alt+F1")
    );
}

#[test]
fn keys_that_people_type_with_need_a_modifier() {
    let (registry, hotkey) = (FakeRegistry::default(), Hotkey::new(None));
    for text in ["Space", "Shift+A", "Control+Escape", "Control+", "no key"] {
        let unusable = HotkeyView::Unusable {
            shortcut: text.to_owned(),
        };
        assert_eq!(hotkey.set(text, &registry, &none()), unusable);
    }
    assert_eq!(hotkey.set("F13", &registry, &none()), registered("F13"));
    let copy = if cfg!(target_os = "macos") {
        "Super+C"
    } else {
        "Control+C"
    };
    assert_eq!(hotkey.set(copy, &registry, &none()), taken(copy));
    assert!(registry.has_only(&["F13"]));
}

#[test]
fn recording_releases_the_shortcut() {
    let (registry, hotkey) = (FakeRegistry::default(), Hotkey::new(None));
    hotkey.set(DEFAULT, &registry, &none());
    hotkey.record(true, &registry);
    hotkey.record(true, &registry);
    assert!(registry.has_only(&[]));
    hotkey.record(false, &registry);
    assert!(registry.has_only(&[DEFAULT]));
}

#[test]
fn a_shortcut_that_is_lost_while_recording_is_shown_as_taken() {
    let (mut registry, hotkey) = (FakeRegistry::default(), Hotkey::new(None));
    hotkey.set(DEFAULT, &registry, &none());
    hotkey.record(true, &registry);
    registry.taken.push(DEFAULT.parse().unwrap());
    hotkey.record(false, &registry);
    assert_eq!(hotkey.view(), taken(DEFAULT));
    registry.taken.clear();
    assert_eq!(hotkey.set(DEFAULT, &registry, &none()), registered(DEFAULT));
    assert!(registry.has_only(&[DEFAULT]));
}

#[test]
fn a_recorded_shortcut_can_be_set_while_recording() {
    let (registry, hotkey) = (FakeRegistry::default(), Hotkey::new(None));
    hotkey.set(DEFAULT, &registry, &none());
    hotkey.record(true, &registry);
    assert_eq!(
        hotkey.set("Alt+F1", &registry, &none()),
        registered("Alt+F1")
    );
    hotkey.record(false, &registry);
    assert!(registry.has_only(&["Alt+F1"]));
    // The same shortcut can be recorded again.
    hotkey.record(true, &registry);
    assert_eq!(
        hotkey.set("Alt+F1", &registry, &none()),
        registered("Alt+F1")
    );
    hotkey.record(false, &registry);
    assert!(registry.has_only(&["Alt+F1"]));
}

#[cfg(not(target_os = "macos"))]
#[test]
fn a_wayland_session_has_a_reason_for_no_shortcut() {
    let wayland = |name: &str| (name == "XDG_SESSION_TYPE").then(|| "wayland".to_owned());
    let hotkey = Hotkey::new(unavailable(wayland));
    let view = hotkey.set(DEFAULT, &FakeRegistry::default(), &none());
    assert!(matches!(view, HotkeyView::Unavailable { .. }));
    assert_eq!(unavailable(|_| None), None);
}
