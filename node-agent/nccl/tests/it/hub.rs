//! Where ranks exchange handles and wait for each other, in the place of NCCL's own bootstrap: values by name, put once.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};

use crate::world::LONG;

type Values = Arc<(Mutex<BTreeMap<String, String>>, Condvar)>;

/// Put where nobody who waits will get anything any more.
const OVER: &str = "over";

/// The side of the test.
pub struct Hub {
    values: Values,
}

impl Hub {
    pub fn open(path: &Path) -> Self {
        let listener = UnixListener::bind(path).unwrap();
        let values = Values::default();
        let held = values.clone();
        // It ends with the test's process.
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let held = held.clone();
                std::thread::spawn(move || serve(&stream, &held));
            }
        });
        Self { values }
    }

    /// A rank has failed: whoever waits for something waits in vain.
    pub fn end(&self) {
        put(&self.values, OVER, "");
    }

    /// Puts something for ranks that wait for it.
    pub fn put(&self, name: &str, value: &str) {
        put(&self.values, name, value);
    }

    /// Waits until somebody has put it.
    pub fn get(&self, name: &str) -> Option<String> {
        get(&self.values, name)
    }
}

fn put(values: &Values, name: &str, value: &str) {
    values.0.lock().unwrap().insert(name.to_owned(), value.to_owned());
    values.1.notify_all();
}

fn get(values: &Values, name: &str) -> Option<String> {
    let held = values.0.lock().unwrap();
    let missing = |values: &mut BTreeMap<_, _>| !values.contains_key(name) && !values.contains_key(OVER);
    let waited = values.1.wait_timeout_while(held, LONG, missing).unwrap();
    waited.0.get(name).cloned()
}

fn serve(stream: &UnixStream, values: &Values) {
    let mut out = stream.try_clone().unwrap();
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        let mut words = line.split(' ');
        let (verb, name) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        let answer = match verb {
            "put" => {
                put(values, name, words.next().unwrap_or(""));
                Some(String::new())
            }
            _ => get(values, name),
        };
        let Some(answer) = answer else { return };
        if writeln!(out, "{answer}").is_err() {
            return;
        }
    }
}

/// The side of a rank.
pub struct Meeting {
    stream: BufReader<UnixStream>,
    rank: usize,
    world: usize,
}

impl Meeting {
    pub fn new(path: &Path, rank: usize, world: usize) -> Self {
        let stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        Self { stream: BufReader::new(stream), rank, world }
    }

    fn ask(&mut self, line: &str) -> String {
        writeln!(self.stream.get_mut(), "{line}").unwrap();
        let mut answer = String::new();
        self.stream.read_line(&mut answer).unwrap();
        assert!(answer.ends_with('\n'), "{line}: it never came");
        answer.trim_end().to_owned()
    }

    pub fn put(&mut self, name: &str, value: &str) {
        self.ask(&format!("put {name} {value}"));
    }

    pub fn get(&mut self, name: &str) -> String {
        self.ask(&format!("get {name}"))
    }

    /// Nobody goes on before everybody is here.
    pub fn barrier(&mut self, name: &str) {
        self.put(&format!("barrier.{name}.{}", self.rank), "here");
        for rank in 0..self.world {
            self.get(&format!("barrier.{name}.{rank}"));
        }
    }
}
