//! The keeper where something is in the way: what cannot be read, trials that are disturbed, undos that fail.

use std::time::Duration;

use node_agent_netlink::{Errno, fake::Style};

use super::{
    keeper::Verdict,
    keeper_tests::{Disk, QUICK, SOON, aim, deviations, keeper, settle, verdict},
    run::RunError,
    tests::{check, server},
};

#[test]
fn half_a_nic_that_cannot_be_read_does_not_return_to_service() {
    let kernel = server(Style::Mlx5, "6.12.0");
    let disk = Disk::new(&kernel);
    let mut first = keeper(&kernel, &disk, QUICK);
    kernel.die_after(9);
    let _ = first.turn(SOON, true);
    drop(first);
    kernel.revive();
    let left = deviations(&check(&kernel.foreign()));
    assert!(left > 0 && !disk.in_service(), "it ended in the middle: {left}");
    let broken = |times| {
        let failures = vec![Errno::IO; times];
        kernel.change(|world| world.devices.get_mut("eth0").unwrap().failures.insert("dcb", failures));
    };
    broken(10_000);
    let mut second = keeper(&kernel, &disk, QUICK);
    for _ in 0..5 {
        for outcome in second.turn(SOON, true).unwrap() {
            let Verdict::Unverified(what) = &outcome.verdict else { panic!("{outcome:?}") };
            assert!(what.iter().any(|line| line.contains("pfc") && line.contains("EIO")), "{what:?}");
        }
        assert!(!disk.in_service() && second.out_of_service().len() == 1, "{:?}", disk.stage());
    }
    broken(0);
    settle(&mut second);
    assert_eq!((deviations(&check(&kernel)), second.out_of_service().len()), (0, 0));
}

/// A driver that was loaded anew, or another tool: what is tried is not that any more. It goes back to what was before the trial, not to what
/// the disturbance left, and this rollout does not try it again.
#[test]
fn a_trial_that_others_disturb_is_taken_back() {
    const LONG: Duration = Duration::from_secs(60);
    let kernel = server(Style::Mlx5, "6.12.0");
    let disk = Disk::new(&kernel);
    let before = check(&kernel);
    let mut keeper = keeper(&kernel, &disk, QUICK);
    aim(&mut keeper, true, Some(LONG), 1);
    assert!(matches!(verdict(&mut keeper), Verdict::Trial(_)));
    kernel.change(|world| world.devices.get_mut("eth0").unwrap().link.mtu = 4000);
    let found = verdict(&mut keeper);
    assert!(
        matches!(&found, Verdict::Failed(RunError::TakenBack { why, .. }) if why.contains("others changed the port")),
        "{found:?}"
    );
    assert_eq!((check(&kernel), disk.in_service()), (before.clone(), true));
    aim(&mut keeper, true, Some(LONG), 1);
    assert!(matches!(verdict(&mut keeper), Verdict::Failed(_)));
    assert_eq!(check(&kernel), before);
}

/// A NIC that cannot be read for a while is not one that others have changed: its trial waits on, for its own time.
#[test]
fn a_trial_that_cannot_be_read_waits() {
    let kernel = server(Style::Mlx5, "6.12.0");
    let disk = Disk::new(&kernel);
    let mut keeper = keeper(&kernel, &disk, QUICK);
    aim(&mut keeper, true, Some(Duration::from_secs(60)), 1);
    assert!(matches!(verdict(&mut keeper), Verdict::Trial(_)));
    let tried = check(&kernel);
    kernel.change(|world| {
        world.devices.get_mut("eth0").unwrap().failures.insert("dcb", vec![Errno::IO; 10_000]);
    });
    let found = verdict(&mut keeper);
    assert!(matches!(&found, Verdict::Trial(_)), "{found:?}");
    kernel.change(|world| world.devices.get_mut("eth0").unwrap().failures.clear());
    assert!(matches!(verdict(&mut keeper), Verdict::Trial(_)));
    assert_eq!(check(&kernel), tried);
}

/// The way back has failed: what is left there is never taken for what was before.
#[test]
fn a_trial_that_is_stuck_is_not_begun_anew() {
    let kernel = server(Style::Mlx5, "6.12.0");
    let disk = Disk::new(&kernel);
    let mut keeper = keeper(&kernel, &disk, QUICK);
    aim(&mut keeper, true, Some(Duration::from_secs(60)), 1);
    assert!(matches!(verdict(&mut keeper), Verdict::Trial(_)));
    kernel.change(|world| {
        let device = world.devices.get_mut("eth0").unwrap();
        device.link.mtu = 4000;
        device.failures.insert("mtu", vec![Errno::BUSY; 10_000]);
    });
    for _ in 0..3 {
        let found = verdict(&mut keeper);
        assert!(matches!(&found, Verdict::Failed(RunError::Stuck { .. })), "{found:?}");
        assert!(!disk.in_service());
    }
    assert_eq!(disk.lines().iter().filter(|line| line.action == "apply").count(), 1, "one trial");
}
