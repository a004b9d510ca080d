//! Programs that run once, together, and end by themselves.

use std::{
    process::Child,
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process_group};

/// Waits until all have ended well and gives what each printed. When one fails or the time is up, all are ended, and the
/// error holds what they said. Each must lead its own process group and write little: the pipes are read at the end.
///
/// # Errors
/// One of them fails or the time is up, with what they wrote.
pub fn ended(mut children: Vec<Child>, limit: Duration) -> Result<Vec<String>, String> {
    let deadline = Instant::now() + limit;
    let failed = loop {
        let states: Vec<_> = children.iter_mut().map(Child::try_wait).collect();
        let bad = states.iter().find_map(|state| match state {
            Ok(Some(status)) if !status.success() => Some(status.to_string()),
            Err(error) => Some(error.to_string()),
            Ok(_) => None,
        });
        if bad.is_some() {
            break bad;
        }
        if states.iter().all(|state| matches!(state, Ok(Some(_)))) {
            break None;
        }
        if Instant::now() > deadline {
            break Some(format!("not done within {limit:?}"));
        }
        thread::sleep(Duration::from_millis(5));
    };
    for child in &mut children {
        if let Some(id) = i32::try_from(child.id()).ok().and_then(Pid::from_raw).filter(|_| failed.is_some())
        {
            // It may have ended meanwhile.
            let _ = kill_process_group(id, Signal::KILL);
        }
        // After a failure its status says nothing more.
        let _ = child.wait();
    }
    let read = |pipe: Option<&mut dyn std::io::Read>| {
        let mut text = String::new();
        // What cannot be read is missing in the text.
        let _ = pipe.map(|pipe| pipe.read_to_string(&mut text));
        text
    };
    let Some(why) = failed else {
        return Ok(children.iter_mut().map(|c| read(c.stdout.as_mut().map(|p| p as _))).collect());
    };
    let said: Vec<String> = children.iter_mut().map(|c| read(c.stderr.as_mut().map(|p| p as _))).collect();
    let said: Vec<&str> = said.iter().filter_map(|text| text.trim().lines().last()).collect();
    Err(format!("{why}: {}", said.join(" | ")))
}
