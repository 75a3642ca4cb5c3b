use super::*;

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

/// Windows with these speeds.
fn windows(speeds: &[f64]) -> Vec<Window> {
    let mut recorder = Recorder::default();
    for (index, speed) in speeds.iter().enumerate() {
        let from = WINDOW * index as u32;
        recorder.add_tokens(from, from + WINDOW, (speed * 10.0) as usize);
    }
    recorder.finish(WINDOW * speeds.len() as u32, &MachineState::default())
}

#[test]
fn tokens_are_divided_among_the_windows_that_they_took() {
    let mut recorder = Recorder::default();
    recorder.add_tokens(seconds(8.0), seconds(12.0), 40);
    recorder.add_tokens(seconds(13.0), seconds(14.0), 30);
    let found = recorder.finish(seconds(20.0), &MachineState::default());
    let tokens: Vec<f64> = found.iter().map(|window| window.tokens).collect();
    assert_eq!(tokens, [20.0, 50.0]);
    // Only the seconds in which tokens were generated count.
    assert_eq!(found[0].tokens_per_second, Some(10.0));
    assert_eq!(found[1].tokens_per_second, Some(50.0 / 3.0));
}

#[test]
fn a_window_without_tokens_has_no_speed() {
    let mut recorder = Recorder::default();
    recorder.add_tokens(seconds(21.0), seconds(22.0), 5);
    let found = recorder.finish(seconds(30.0), &MachineState::default());
    let speeds: Vec<Option<f64>> = found.iter().map(|w| w.tokens_per_second).collect();
    assert_eq!(speeds, [None, None, Some(5.0)]);
}

#[test]
fn the_last_window_counts_if_it_is_long_enough() {
    let n_windows = |end: f64| {
        let recorder = Recorder::default();
        recorder
            .finish(seconds(end), &MachineState::default())
            .len()
    };
    assert_eq!(n_windows(0.0), 0);
    assert_eq!(n_windows(3.0), 1, "the only one");
    assert_eq!(n_windows(14.9), 1);
    assert_eq!(n_windows(15.0), 2);
}

#[test]
fn each_window_has_the_state_at_its_end_and_its_own_energy() {
    use ThermalState::{Fair, Nominal, Serious};
    let state = |thermal, joules| MachineState {
        thermal,
        limits: Vec::new(),
        joules,
    };
    let mut recorder = Recorder::default();
    assert!(!recorder.needs_state(seconds(9.9)));
    assert!(recorder.needs_state(seconds(10.1)));
    recorder.add_state(seconds(10.1), &state(Nominal, Some(100.0)));
    assert!(!recorder.needs_state(seconds(19.0)));
    // Two windows passed without a look at the machine.
    recorder.add_state(seconds(31.0), &state(Fair, Some(400.0)));
    recorder.add_tokens(seconds(0.0), seconds(40.0), 1000);
    let found = recorder.finish(seconds(40.0), &state(Serious, Some(500.0)));
    let joules: Vec<Option<f64>> = found.iter().map(|window| window.joules).collect();
    assert_eq!(joules, [100.0, 150.0, 150.0, 100.0].map(Some));
    let thermal: Vec<ThermalState> = found.iter().map(|window| window.thermal).collect();
    assert_eq!(thermal, [Nominal, Fair, Fair, Serious]);
    let mut without = found.clone();
    without[2].joules = None;
    assert_eq!(energy(&without), None);
    assert_eq!(energy(&[]), None);
}

#[test]
fn energy_is_that_of_all_windows() {
    let mut recorder = Recorder::default();
    recorder.add_tokens(Duration::ZERO, seconds(20.0), 1000);
    let state = MachineState {
        joules: Some(400.0),
        ..MachineState::default()
    };
    let energy = energy(&recorder.finish(seconds(20.0), &state)).unwrap();
    assert_eq!((energy.watts, energy.tokens_per_joule), (20.0, 2.5));
}

#[test]
fn the_throttling_point_is_the_first_of_three_slow_windows() {
    let steady = windows(&[50.0, 52.0, 48.0, 50.0, 51.0, 49.0, 50.0, 46.0, 50.0]);
    assert_eq!(throttling(&steady), None);
    let one_dip = windows(&[50.0, 50.0, 50.0, 50.0, 50.0, 50.0, 20.0, 20.0, 50.0]);
    assert_eq!(throttling(&one_dip), None, "another program was busy");
    let slows = windows(&[50.0, 50.0, 50.0, 50.0, 50.0, 50.0, 47.0, 40.0, 38.0, 36.0]);
    let found = throttling(&slows).unwrap();
    assert_eq!(
        (found.at_seconds, found.before, found.after),
        (70.0, 50.0, 38.0)
    );
    assert_eq!(throttling(&[]), None);
}

#[test]
fn the_first_fifth_tenth_and_last_minute_are_reported() {
    let minutes_of = |n_windows: usize| -> Vec<usize> {
        let found = minutes(&windows(&vec![10.0; n_windows]));
        found.iter().map(|one| one.minute).collect()
    };
    assert_eq!(minutes_of(2), [1]);
    assert_eq!(minutes_of(12), [1, 2]);
    assert_eq!(minutes_of(40), [1, 5, 6]);
    assert_eq!(minutes_of(75), [1, 5, 10, 12]);
    assert_eq!(minutes(&[]), []);
}

#[test]
fn a_speed_far_from_its_prediction_is_flagged() {
    let is_far_off = |low, high, speed: f64| {
        Prediction::new(low, high, &windows(&[speed; 6]))
            .unwrap()
            .is_far_off
    };
    assert!(!is_far_off(40.0, 60.0, 50.0));
    assert!(!is_far_off(40.0, 60.0, 33.0));
    assert!(is_far_off(40.0, 60.0, 31.0));
    assert!(!is_far_off(40.0, 60.0, 75.0));
    assert!(is_far_off(40.0, 60.0, 76.0));
    assert_eq!(Prediction::new(1.0, 2.0, &[]), None);
}

#[test]
fn joined_windows_have_the_tokens_and_the_energy_of_all() {
    let mut found = windows(&[50.0, 30.0, 40.0, 40.0, 10.0]);
    found[1].tokens_per_second = None;
    for window in &mut found {
        window.joules = Some(5.0);
    }
    found[3].thermal = ThermalState::Fair;
    let few = joined(&found, 3);
    assert_eq!(few.len(), 3);
    assert_eq!((few[1].start_seconds, few[1].seconds), (20.0, 20.0));
    assert_eq!((few[1].tokens, few[1].joules), (800.0, Some(10.0)));
    assert_eq!(few[1].tokens_per_second, Some(40.0));
    assert_eq!(few[1].thermal, ThermalState::Fair);
    assert_eq!(few[0].tokens, 800.0);
    assert_eq!(joined(&found, 5), found, "nothing is joined");
    assert_eq!(joined(&[], 5), []);
    found[4].joules = None;
    assert_eq!(joined(&found, 1)[0].joules, None);
}
