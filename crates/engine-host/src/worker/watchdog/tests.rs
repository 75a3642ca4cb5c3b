use super::*;

fn after(start: Instant, seconds: f64) -> Instant {
    start + Duration::from_secs_f64(seconds)
}

fn armed() -> (Watchdog, Instant) {
    let start = Instant::now();
    let mut watchdog = Watchdog::new(Timeouts::default());
    watchdog.expect(Awaited::Response, start);
    (watchdog, start)
}

#[test]
fn there_is_no_deadline_while_nothing_is_awaited() {
    let (mut watchdog, start) = armed();
    assert!(watchdog.deadline().is_some());
    watchdog.expect(Awaited::Nothing, start);
    assert_eq!(watchdog.deadline(), None);
    assert_eq!(watchdog.tick(after(start, 1000.0)), None);
}

#[test]
fn it_pings_every_second_and_gives_up_after_five_seconds_without_a_message() {
    let (mut watchdog, start) = armed();
    for second in 1..5 {
        let deadline = watchdog.deadline();
        assert_eq!(deadline, Some(after(start, f64::from(second))));
        let action = watchdog.tick(after(start, f64::from(second)));
        assert!(
            matches!(action, Some(WatchdogAction::Ping { .. })),
            "{action:?}"
        );
    }
    let silence = Duration::from_secs(5);
    let action = watchdog.tick(after(start, 5.0));
    assert_eq!(action, Some(WatchdogAction::GiveUp { silence }));
}

#[test]
fn any_message_restarts_the_timeout() {
    let (mut watchdog, start) = armed();
    for second in 1..60 {
        let now = after(start, f64::from(second));
        watchdog.message_received(now);
        assert!(matches!(
            watchdog.tick(now),
            Some(WatchdogAction::Ping { .. })
        ));
    }
}

#[test]
fn the_timeout_restarts_after_the_machine_slept() {
    let (mut watchdog, start) = armed();
    let action = watchdog.tick(after(start, 3600.0));
    assert!(
        matches!(action, Some(WatchdogAction::Ping { .. })),
        "{action:?}"
    );
    assert_eq!(watchdog.deadline(), Some(after(start, 3601.0)));
}

#[test]
fn a_hello_may_take_longer_and_gets_no_pings() {
    let start = Instant::now();
    let mut watchdog = Watchdog::new(Timeouts::default());
    watchdog.expect(Awaited::Hello, start);
    assert_eq!(watchdog.tick(after(start, 29.0)), None);
    let silence = Duration::from_secs(30);
    let action = watchdog.tick(after(start, 30.0));
    assert_eq!(action, Some(WatchdogAction::GiveUp { silence }));
}
