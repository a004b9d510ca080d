//! A real Prometheus on loopback, with a port and a folder of its own, ended with whoever started it.

use std::{
    fmt::Write as _,
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use serde_json::{Value, json};

use crate::{
    etcd::{get, tied},
    wait::eventually,
};

/// Longest wait until it serves.
const PATIENCE: Duration = Duration::from_secs(60);

/// A Prometheus that scrapes, killed when dropped.
#[derive(Debug)]
pub struct Prometheus {
    child: Child,
    address: SocketAddr,
    _dir: tempfile::TempDir,
}

impl Prometheus {
    /// The program: `RAIL_TEST_PROMETHEUS`, or `prometheus` in the path.
    #[must_use]
    pub fn program() -> Option<PathBuf> {
        if let Some(path) = std::env::var_os("RAIL_TEST_PROMETHEUS") {
            return Some(path.into());
        }
        let mut command = Command::new("prometheus");
        command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success()).then(|| "prometheus".into())
    }

    /// Starts one that scrapes `targets` and evaluates the rules of `files` every second, and waits until it serves.
    ///
    /// # Errors
    /// There is no Prometheus, or it does not serve; the text holds its log.
    pub fn start(targets: &[SocketAddr], files: &[PathBuf]) -> Result<Self, String> {
        let program = Self::program().ok_or("there is no Prometheus (Debian: apt install prometheus)")?;
        let dir = tempfile::tempdir().map_err(|error| format!("no folder: {error}"))?;
        let targets: Vec<String> = targets.iter().map(SocketAddr::to_string).collect();
        // JSON is YAML.
        let config = json!({
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": files,
            "scrape_configs": [{"job_name": "railyard", "static_configs": [{"targets": targets}]}],
        });
        let (config_file, log) = (dir.path().join("prometheus.yml"), dir.path().join("prometheus.log"));
        fs::write(&config_file, config.to_string()).map_err(|error| format!("no configuration: {error}"))?;
        let output = fs::File::create(&log).map_err(|error| format!("no log: {error}"))?;
        let mut command = tied(&program);
        command.arg("--config.file").arg(&config_file);
        command.arg("--storage.tsdb.path").arg(dir.path().join("data"));
        command.args(["--web.listen-address", "127.0.0.1:0", "--storage.tsdb.retention.time", "1d"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(output);
        let child = command.spawn().map_err(|error| format!("cannot start Prometheus: {error}"))?;
        // From here on it ends with this value.
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut prometheus = Self { child, address: nowhere, _dir: dir };
        let served = eventually("Prometheus to serve", PATIENCE, || prometheus.serves(&log));
        prometheus.address = served
            .unwrap_or_else(Err)
            .map_err(|error| format!("{error}\n{}", fs::read_to_string(&log).unwrap_or_default()))?;
        Ok(prometheus)
    }

    /// Where it serves, once it does; an error once it has ended.
    fn serves(&mut self, log: &Path) -> Option<Result<SocketAddr, String>> {
        match self.child.try_wait() {
            Ok(None) => listening(log).filter(|address| is_ready(*address)).map(Ok),
            Ok(Some(status)) => Some(Err(format!("Prometheus ended with {status} instead of serving"))),
            Err(error) => Some(Err(format!("cannot tell whether Prometheus runs: {error}"))),
        }
    }

    /// What an expression is now: its series, each with `metric` and `value`.
    ///
    /// # Errors
    /// What Prometheus says of the expression, or that it does not answer.
    pub fn query(&self, expression: &str) -> Result<Vec<Value>, String> {
        let data = self.api(&format!("query?query={}", encoded(expression)))?;
        match data["resultType"].as_str() {
            Some("vector") => Ok(data["result"].as_array().cloned().unwrap_or_default()),
            // A number, with its time before it.
            Some("scalar") => Ok(vec![json!({"metric": {}, "value": data["result"]})]),
            other => Err(format!("{expression}: the answer is of type {other:?}")),
        }
    }

    /// All rules as they were evaluated last: each with `name`, `type`, `health`, `lastError`, and `state` where it is an alert.
    ///
    /// # Errors
    /// Prometheus does not answer.
    pub fn rules(&self) -> Result<Vec<Value>, String> {
        let data = self.api("rules")?;
        let groups = data["groups"].as_array().map(Vec::as_slice).unwrap_or_default();
        let rules = groups.iter().filter_map(|group| group["rules"].as_array());
        Ok(rules.flatten().cloned().collect())
    }

    fn api(&self, path: &str) -> Result<Value, String> {
        let answer = get(self.address, &format!("/api/v1/{path}"))
            .ok_or_else(|| format!("Prometheus does not answer to {path}"))?;
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        let mut answer: Value =
            serde_json::from_str(body).map_err(|error| format!("Prometheus answers {body:?}: {error}"))?;
        match answer["status"].as_str() {
            Some("success") => Ok(answer["data"].take()),
            _ => Err(format!("{path}: {}", answer["error"])),
        }
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The address that the log tells, once it is there.
fn listening(log: &Path) -> Option<SocketAddr> {
    let text = fs::read_to_string(log).ok()?;
    let line = text.lines().find(|line| line.contains("Listening on"))?;
    line.split_whitespace().find_map(|word| word.strip_prefix("address="))?.parse().ok()
}

fn is_ready(address: SocketAddr) -> bool {
    let head = get(address, "/-/ready").unwrap_or_default();
    head.lines().next().is_some_and(|line| line.contains(" 200 "))
}

/// As a part of a query of an address.
fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut done, byte| {
        if byte.is_ascii_alphanumeric() {
            done.push(char::from(byte));
        } else {
            // Nothing fails that writes to a text.
            let _ = write!(done, "%{byte:02X}");
        }
        done
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_is_encoded_whole() {
        assert_eq!(encoded("a{b=\"c\"} + 1"), "a%7Bb%3D%22c%22%7D%20%2B%201");
    }

    #[test]
    fn one_that_has_ended_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let child = Command::new("false").spawn().unwrap();
        let mut ended = Prometheus { child, address: SocketAddr::from(([127, 0, 0, 1], 0)), _dir: dir };
        let said = eventually("its end", PATIENCE, || ended.serves(&log)).unwrap().unwrap_err();
        assert_eq!(said, "Prometheus ended with exit status: 1 instead of serving");
    }

    #[test]
    fn the_address_is_read_from_the_log_of_either_version() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        for line in [
            "ts=2026-01-01T00:00:00Z caller=tls_config.go:232 level=info component=web msg=\"Listening on\" address=127.0.0.1:42879",
            "time=2026-01-01T00:00:00Z level=INFO source=tls_config.go:347 msg=\"Listening on\" component=web address=127.0.0.1:42879",
        ] {
            fs::write(
                &log,
                format!("level=info msg=\"Start listening for connections\" address=127.0.0.1:0\n{line}\n"),
            )
            .unwrap();
            assert_eq!(listening(&log), Some(SocketAddr::from(([127, 0, 0, 1], 42879))));
        }
    }
}
