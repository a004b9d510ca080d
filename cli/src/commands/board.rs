//! What is watched as one table that is drawn again in place: changes come in, the table is drawn when there is something new, and every
//! second for the sake of ages.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use tokio::{
    signal::unix::{Signal, SignalKind},
    sync::mpsc,
    time::{MissedTickBehavior, interval},
};
use tonic::{Status, Streaming};

use super::{
    allocation::{Ending, listen_to},
    screen::{Screen, Size},
    watch::Resumer,
};
use crate::{error::Error, render::clean};

/// From picture to picture at least, and at most.
const LEAST: Duration = Duration::from_millis(200);
const MOST: Duration = Duration::from_secs(1);
/// Changes on their way to the table.
const CHANGES: usize = 256;

/// A change of what is watched.
#[derive(Debug, Clone, PartialEq)]
pub enum Change<K, T> {
    /// All that is there follows, up to SYNCED.
    Anew,
    /// This is there, or has become so.
    Put(K, T),
    /// This is gone.
    Delete(K),
    /// All of what is there has come.
    Synced,
    /// The connection was lost, and why.
    Lost(String),
}

/// What things are known by; its order is that in which they are shown.
pub trait Key: Ord + Clone {
    /// Whether it is the key of a thing that was deleted without a word of what it was.
    fn is_of(&self, deleted: &Self) -> bool {
        self == deleted
    }
}

impl Key for String {}

/// All that is watched, in the order in which it is shown.
#[derive(Debug)]
pub struct Board<K, T> {
    items: BTreeMap<K, T>,
    /// While all that is there comes: what has come of it.
    anew: Option<BTreeSet<K>>,
    /// All of what is there has come once.
    ready: bool,
    /// Why there is no connection now.
    lost: Option<String>,
}

impl<K: Key, T> Board<K, T> {
    /// Nothing is known yet.
    pub fn new() -> Self {
        Self { items: BTreeMap::new(), anew: None, ready: false, lost: None }
    }

    /// Takes a change in.
    pub fn take(&mut self, change: Change<K, T>) {
        if !matches!(change, Change::Lost(_) | Change::Anew) {
            self.lost = None;
        }
        match change {
            Change::Anew => self.anew = Some(BTreeSet::new()),
            Change::Put(key, item) => {
                if let Some(anew) = &mut self.anew {
                    anew.insert(key.clone());
                }
                self.items.insert(key, item);
            }
            Change::Delete(key) => {
                if self.items.remove(&key).is_none() {
                    self.items.retain(|known, _| !known.is_of(&key));
                }
            }
            Change::Synced => {
                // What did not come again was deleted while there was no connection.
                if let Some(anew) = self.anew.take() {
                    self.items.retain(|key, _| anew.contains(key));
                }
                self.ready = true;
            }
            Change::Lost(why) => self.lost = Some(why),
        }
    }

    /// What there is.
    pub fn items(&self) -> impl Iterator<Item = &T> {
        self.items.values()
    }

    /// Whether there is something to show.
    fn is_shown(&self) -> bool {
        self.ready || self.lost.is_some()
    }

    /// What is above the table where it may be out of date.
    fn note(&self) -> String {
        self.lost
            .as_ref()
            .map_or_else(String::new, |why| format!("not connected, trying again: {}\n", clean(why)))
    }
}

/// A terminal that is taken, and what is heard of it: signals that end the watch, and that its size has changed.
#[derive(Debug)]
pub struct Window {
    screen: Screen,
    ending: Ending,
    resized: Signal,
}

impl Window {
    /// Listens to signals, then takes the terminal; `None`, and nothing is listened to, where standard output is none.
    ///
    /// # Errors
    /// [`Error::Config`] if the process cannot listen to signals; [`Error::Output`] if standard output cannot be written to.
    pub fn begin() -> Result<Option<Self>, Error> {
        if !Screen::is_there() {
            return Ok(None);
        }
        let (ending, resized) = (Ending::listen()?, listen_to(SignalKind::window_change())?);
        Ok(Screen::begin()?.map(|screen| Self { screen, ending, resized }))
    }
}

/// Watches and draws until Ctrl-C. `open` begins behind a revision, `read` makes a change of an event, with its revision; `draw` makes
/// lines for a terminal of some size, and says how many it left out.
///
/// # Errors
/// [`Error::Interrupted`] for Ctrl-C, SIGTERM and SIGHUP; [`Error::Rpc`] if the controller refuses, or if trying again does not help;
/// [`Error::Output`] if standard output cannot be written to.
pub async fn watch<K: Key, T, E>(
    doing: &str,
    window: Window,
    open: impl AsyncFn(u64) -> Result<Streaming<E>, Status>,
    read: impl Fn(E) -> Option<(u64, Change<K, T>)>,
    draw: impl Fn(&Board<K, T>, Size) -> (String, usize),
) -> Result<(), Error> {
    let (sender, receiver) = mpsc::channel(CHANGES);
    tokio::select! {
        done = feed(doing, &sender, open, read) => done,
        done = show(window, receiver, draw) => done,
    }
}

/// Keeps the stream alive, and hands on what it says.
async fn feed<K, T, E>(
    doing: &str,
    to: &mpsc::Sender<Change<K, T>>,
    open: impl AsyncFn(u64) -> Result<Streaming<E>, Status>,
    read: impl Fn(E) -> Option<(u64, Change<K, T>)>,
) -> Result<(), Error> {
    let mut resumer = Resumer::quiet();
    loop {
        if resumer.revision == 0 && to.send(Change::Anew).await.is_err() {
            return Ok(());
        }
        let lost = match open(resumer.revision).await {
            Err(status) => Some(status),
            Ok(mut stream) => loop {
                match stream.message().await {
                    Err(status) => break Some(status),
                    Ok(None) => break None,
                    Ok(Some(event)) => {
                        let Some((revision, change)) = read(event) else { continue };
                        resumer.arrived(revision, matches!(change, Change::Synced));
                        if to.send(change).await.is_err() {
                            return Ok(());
                        }
                    }
                }
            },
        };
        if let Some(status) = &lost
            && to.send(Change::Lost(status.message().to_owned())).await.is_err()
        {
            return Ok(());
        }
        resumer.lost(doing, lost).await?;
    }
}

/// Draws what has come, but not too often.
async fn show<K: Key, T>(
    window: Window,
    mut from: mpsc::Receiver<Change<K, T>>,
    draw: impl Fn(&Board<K, T>, Size) -> (String, usize),
) -> Result<(), Error> {
    let Window { screen, mut ending, mut resized } = window;
    let mut every = interval(LEAST);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut board, mut pace) = (Board::new(), Pace::default());
    loop {
        tokio::select! {
            change = from.recv() => {
                let Some(change) = change else { return Ok(()) };
                board.take(change);
                pace.changed = true;
            }
            _ = resized.recv() => pace.changed = true,
            _ = every.tick() => {
                if board.is_shown() && pace.is_due(Instant::now()) {
                    screen.draw(|size| {
                        let (text, more) = draw(&board, size);
                        (board.note() + &text, more)
                    })?;
                }
            }
            _ = ending.next() => return Err(Error::Interrupted),
        }
    }
}

/// When the next picture is due.
#[derive(Debug, Default)]
struct Pace {
    changed: bool,
    drawn: Option<Instant>,
}

impl Pace {
    /// Whether one is due; then it counts as drawn.
    fn is_due(&mut self, now: Instant) -> bool {
        let passed = self.drawn.map(|drawn| now.saturating_duration_since(drawn));
        let due = passed.is_none_or(|passed| passed >= MOST || (self.changed && passed >= LEAST));
        if due {
            (self.changed, self.drawn) = (false, Some(now));
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_vanished_while_nobody_looked_is_gone() {
        let mut board: Board<String, u32> = Board::new();
        board.take(Change::Anew);
        board.take(Change::Put("b".into(), 2));
        board.take(Change::Put("a".into(), 1));
        assert!(!board.is_shown(), "half of a table is none");
        board.take(Change::Synced);
        assert!(board.is_shown());
        board.take(Change::Put("c".into(), 3));
        board.take(Change::Delete("a".into()));
        assert_eq!(board.items().copied().collect::<Vec<_>>(), [2, 3]);
        board.take(Change::Lost("away".into()));
        assert_eq!(board.note(), "not connected, trying again: away\n");
        board.take(Change::Lost("a\x1b[2J\nway".into()));
        assert_eq!(board.note(), "not connected, trying again: a [2J way\n");
        board.take(Change::Anew);
        assert_eq!(board.items().count(), 2, "the old table stays until the new one is whole");
        assert!(!board.note().is_empty(), "nothing has come yet");
        board.take(Change::Put("c".into(), 4));
        board.take(Change::Synced);
        assert_eq!((board.items().copied().collect::<Vec<_>>(), board.note().as_str()), (vec![4], ""));
    }

    #[test]
    fn pictures_come_at_most_five_times_a_second() {
        let begin = Instant::now();
        let mut pace = Pace { changed: true, drawn: None };
        let mut drawn = 0;
        for millis in 0..3000 {
            pace.changed = millis < 1000;
            drawn += u32::from(pace.is_due(begin + Duration::from_millis(millis)));
        }
        // Five in the first second, in which all changes; then one a second.
        assert_eq!(drawn, 5 + 2);
    }
}
