//! Bands hold as often as they say, also where the law of the errors changes; and they stay small.

use proto_random::Random;

use super::*;

fn uid(number: u64) -> JobUid {
    JobUid::ordered(Timestamp(number), 0, number.to_be_bytes())
}

/// Forecasts whose real waits are `factor` times what was told; the shares of starts before, in and after their bands.
/// Bands that forecasts say by themselves are far too narrow. `late` starts are told before the first one has come.
fn shares(count: u64, late: usize, mut factor: impl FnMut(u64, &mut Random) -> f64) -> [f64; 3] {
    let (mut bands, mut dice, mut found) = (Bands::default(), Random::new(7), [0.0; 3]);
    let mut open: VecDeque<(JobUid, Timestamp)> = VecDeque::new();
    for number in 0..count {
        let now = Timestamp(number * 1000);
        let ahead = Duration::from_secs(600 + (dice.unit() * 5000.0) as u64);
        let start = now.plus(ahead);
        let reported = bands.corrections(now).of(Eta::estimate(start, start, start), now);
        assert!(
            now <= reported.earliest
                && reported.earliest <= reported.start
                && reported.start <= reported.latest
        );
        bands.report(uid(number), start, reported, now);
        let real = now.plus(ahead.mul_f64(factor(number, &mut dice)));
        if number >= count / 5 {
            let at = usize::from(real >= reported.earliest) + usize::from(real > reported.latest);
            found[at] += 1.0;
        }
        open.push_back((uid(number), real));
        if open.len() > late
            && let Some((uid, real)) = open.pop_front()
        {
            bands.settle(uid, Some(real));
        }
    }
    let all: f64 = found.iter().sum();
    found.map(|share| share / all)
}

#[test]
fn four_of_five_starts_lie_inside_whatever_the_law() {
    let laws: [fn(u64, &mut Random) -> f64; 4] = [
        |_, dice| 0.2 + dice.unit() * 2.0,
        |_, dice| (dice.unit() * 6.0 - 3.0).exp(),
        // Most start at once, some never nearly.
        |_, dice| if dice.unit() < 0.6 { dice.unit() * 0.1 } else { 1.0 + dice.unit() * 30.0 },
        // The law changes: waits become ever longer, and then short again.
        |number, dice| {
            let swing = (number as f64 / 400.0).sin() * 2.0;
            (swing + dice.unit()).exp()
        },
    ];
    for (at, law) in laws.into_iter().enumerate() {
        for late in [0, 100] {
            let [before, inside, after] = shares(6000, late, law);
            assert!((0.78..=0.825).contains(&inside), "law {at}, late {late}: {before} {inside} {after}");
            assert!((before - after).abs() < 0.1, "law {at}, late {late}: {before} {inside} {after}");
        }
    }
}

#[test]
fn where_little_is_known_the_forecast_speaks_for_itself() {
    let mut bands = Bands::default();
    let raw = Eta::estimate(Timestamp(600_000), Timestamp(500_000), Timestamp(700_000));
    for number in 0..FEW as u64 {
        assert_eq!(bands.corrections(Timestamp(0)).of(raw, Timestamp(0)), raw);
        bands.report(uid(number), raw.start, raw, Timestamp(0));
        bands.settle(uid(number), Some(Timestamp(1_200_000)));
    }
    let reported = bands.corrections(Timestamp(0)).of(raw, Timestamp(0));
    // Twice as long, with the minute that is added to all.
    assert!(reported.start.0.abs_diff(1_200_000) < 2000, "{reported:?}");
}

#[test]
fn what_is_kept_is_bounded_and_goes_with_the_job() {
    let mut bands = Bands::default();
    let eta = |at: u64| Eta::estimate(Timestamp(at), Timestamp(at), Timestamp(at));
    for number in 0..OPEN as u64 + 100 {
        bands.report(uid(number), Timestamp(number * 1000), eta(number), Timestamp(0));
    }
    assert_eq!(bands.open.len(), OPEN);
    for number in 0..OPEN as u64 + 100 {
        let started = (number % 2 == 0).then_some(Timestamp(5_000_000));
        bands.settle(uid(number), started);
    }
    assert!(bands.open.is_empty());
    assert!(bands.kinds.len() < 32 && bands.kinds.values().all(|kind| kind.reported.len() <= KEPT));
    // Of jobs that went without a start nothing is learned.
    let mut none = Bands::default();
    none.report(uid(1), Timestamp(1), eta(1), Timestamp(0));
    none.settle(uid(1), None);
    assert!(none.open.is_empty() && none.kinds.values().all(|kind| kind.reported.is_empty()));
}

#[test]
fn who_still_waits_counts() {
    let (mut bands, reported) = (Bands::default(), Timestamp(600_000));
    let raw = Eta::estimate(reported, reported, reported);
    // Half of them started as was told, the others have waited for ten times as long by now.
    for number in 0..2 * FEW as u64 {
        bands.report(uid(number), reported, raw, Timestamp(0));
        if number % 2 == 0 {
            bands.settle(uid(number), Some(reported));
        }
    }
    let now = Timestamp(6_000_000);
    let band = |bands: &Bands| {
        let start = now.plus(Duration::from_secs(600));
        bands.corrections(now).of(Eta::estimate(start, start, start), now).latest.since(now)
    };
    let before = band(&bands);
    bands.pass_time(now);
    bands.pass_time(now);
    assert!(bands.open.values().all(|reported| reported.late));
    assert!(band(&bands) >= before, "each has missed its band, and that once");
    (0..2 * FEW as u64).for_each(|number| bands.settle(uid(number), Some(now)));
    // Now it is known that half of them take ten times as long.
    assert!(band(&bands) > Duration::from_secs(5000), "{:?}", band(&bands));
}

/// Starts that were told an hour ahead and came after a half to twice of that.
fn learned() -> Bands {
    let mut bands = Bands::default();
    for number in 0..KEPT as u64 {
        let (now, ahead) = (Timestamp(number * 1000), Duration::from_secs(3600));
        let raw = Eta::estimate(now.plus(ahead), now.plus(ahead), now.plus(ahead));
        let reported = bands.corrections(now).of(raw, now);
        bands.report(uid(number), raw.start, reported, now);
        bands.settle(uid(number), Some(now.plus(ahead.mul_f64(0.5 + (number * 7 % 16) as f64 * 0.1))));
    }
    bands
}

#[test]
fn of_a_burst_that_still_waits_the_newest_forecast_counts() {
    let (mut bands, now) = (learned(), Timestamp(10_000_000));
    let start = now.plus(Duration::from_secs(3600));
    let raw = Eta::estimate(start, start, start);
    let band = |bands: &Bands| bands.corrections(now).of(raw, now);
    let reported = band(&bands);
    let burst = 1000..1010_u64;
    burst.clone().for_each(|number| bands.report(uid(number), start, reported, now));
    let before = band(&bands);
    // None of them has started; by now it is foretold that they start before their bands.
    let soon = now.plus(Duration::from_secs(300));
    let settled = bands.wider;
    bands.revise(|_| Some(soon));
    let early = band(&bands);
    assert!(early.earliest < before.earliest && early.latest <= before.latest, "{before:?} {early:?}");
    bands.revise(|_| Some(reported.latest.plus(Duration::from_secs(60))));
    let late = band(&bands);
    assert!(late.latest > before.latest && late.earliest >= before.earliest, "{before:?} {late:?}");
    // What was expected is forgotten; what comes is kept.
    assert_eq!(bands.wider, settled);
    burst.for_each(|number| bands.settle(uid(number), Some(start)));
    let after = band(&bands);
    assert!(after.earliest >= before.earliest && after.latest <= before.latest, "{before:?} {after:?}");
}

#[test]
fn all_kinds_move_together_and_only_bands_that_rest_on_errors_teach() {
    let mut bands = learned();
    let (wider, now) = (bands.wider, Timestamp(10_000_000));
    // Days ahead, of which nothing like it is known: what the forecast says itself is missed.
    let far = now.plus(Duration::from_secs(40 * 86_400));
    let raw = Eta::estimate(far, far, far);
    assert_eq!(bands.corrections(now).of(raw, now), raw);
    bands.report(uid(5000), far, raw, now);
    bands.settle(uid(5000), Some(now.plus(Duration::from_secs(60))));
    assert_eq!(bands.wider, wider);
    // Four hours ahead, with errors of the next kind: that moves the bands of an hour too.
    let ahead = now.plus(Duration::from_secs(4 * 3600));
    let reported = bands.corrections(now).of(Eta::estimate(ahead, ahead, ahead), now);
    bands.report(uid(5001), ahead, reported, now);
    bands.settle(uid(5001), Some(now.plus(Duration::from_secs(60))));
    assert_eq!(bands.wider, [wider[0] + step(true), (wider[1] + step(false)).max(-NARROWER)]);
}

#[test]
fn a_side_is_learned_of_when_it_is_known_and_once() {
    let (mut bands, now) = (learned(), Timestamp(10_000_000));
    let start = now.plus(Duration::from_secs(3600));
    let reported = bands.corrections(now).of(Eta::estimate(start, start, start), now);
    assert!(
        reported.earliest.0 % DIGIT == 0 && reported.latest.0 % DIGIT == 0,
        "whole seconds: {reported:?}"
    );
    bands.report(uid(9000), start, reported, now);
    let wider = bands.wider;
    bands.pass_time(reported.earliest);
    assert_eq!(bands.wider, [(wider[0] + step(false)).max(-NARROWER), wider[1]], "it is not early");
    let wider = bands.wider;
    bands.pass_time(reported.latest);
    assert_eq!(bands.wider, wider, "it may still be in time");
    bands.pass_time(reported.latest.plus(Duration::from_secs(1)));
    assert_eq!(bands.wider, [wider[0], wider[1] + step(true)]);
    let wider = bands.wider;
    bands.settle(uid(9000), Some(reported.latest.plus(Duration::from_secs(2))));
    assert_eq!(bands.wider, wider);
}
