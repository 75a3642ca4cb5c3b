use super::*;

fn after(start: Instant, seconds: f64) -> Instant {
    start + Duration::from_secs_f64(seconds)
}

fn armed() -> (Watchdog, Instant) {
    let start = Instant::now();
    let mut watchdog = Watchdog::new(Patience::default());
    watchdog.expect(Due::Answer, start);
    (watchdog, start)
}

#[test]
fn nothing_due_means_no_deadline_at_all() {
    let (mut watchdog, start) = armed();
    assert!(watchdog.deadline().is_some());
    watchdog.expect(Due::Nothing, start);
    assert_eq!(watchdog.deadline(), None);
    assert_eq!(watchdog.tick(after(start, 1000.0)), None);
}

#[test]
fn it_pings_every_second_and_gives_up_after_five_without_a_word() {
    let (mut watchdog, start) = armed();
    for second in 1..5 {
        let deadline = watchdog.deadline();
        assert_eq!(deadline, Some(after(start, f64::from(second))));
        let bark = watchdog.tick(after(start, f64::from(second)));
        assert!(matches!(bark, Some(Bark::Ping { .. })), "{bark:?}");
    }
    let silence = Duration::from_secs(5);
    let bark = watchdog.tick(after(start, 5.0));
    assert_eq!(bark, Some(Bark::GiveUp { silence }));
}

#[test]
fn any_word_starts_the_wait_anew() {
    let (mut watchdog, start) = armed();
    for second in 1..60 {
        let now = after(start, f64::from(second));
        watchdog.heard(now);
        assert!(matches!(watchdog.tick(now), Some(Bark::Ping { .. })));
    }
}

#[test]
fn a_machine_that_slept_gives_the_child_its_time_again() {
    let (mut watchdog, start) = armed();
    let bark = watchdog.tick(after(start, 3600.0));
    assert!(matches!(bark, Some(Bark::Ping { .. })), "{bark:?}");
    assert_eq!(watchdog.deadline(), Some(after(start, 3601.0)));
}

#[test]
fn a_greeting_may_take_longer_and_is_not_hurried_by_pings() {
    let start = Instant::now();
    let mut watchdog = Watchdog::new(Patience::default());
    watchdog.expect(Due::Greeting, start);
    assert_eq!(watchdog.tick(after(start, 29.0)), None);
    let silence = Duration::from_secs(30);
    let bark = watchdog.tick(after(start, 30.0));
    assert_eq!(bark, Some(Bark::GiveUp { silence }));
}
