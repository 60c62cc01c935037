//! The gate before the reading half of a link. A learner closes it while its disk changes the history and
//! enough packets wait for the disk.

use tokio::sync::watch;

#[derive(Debug)]
pub(super) struct ReadGate {
    is_open: watch::Sender<bool>,
}

impl Default for ReadGate {
    fn default() -> ReadGate {
        ReadGate { is_open: watch::Sender::new(true) }
    }
}

impl ReadGate {
    pub(super) fn close(&self) {
        self.is_open.send_replace(false);
    }

    pub(super) fn open(&self) {
        self.is_open.send_replace(true);
    }

    /// Waits while the gate is closed.
    pub(super) async fn wait_until_open(&self) {
        if *self.is_open.borrow() {
            return;
        }
        // Fails only if the sender is gone, and `self` owns it.
        let _ = self.is_open.subscribe().wait_for(|is_open| *is_open).await;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A bound far above the time of a wakeup.
    const PATIENCE: Duration = Duration::from_secs(30);

    #[tokio::test]
    async fn a_closed_gate_holds_the_reader_until_it_opens() {
        let gate = ReadGate::default();
        gate.wait_until_open().await;
        gate.close();
        let opened = std::cell::Cell::new(false);
        let reads = async {
            gate.wait_until_open().await;
            assert!(opened.get(), "the gate was closed");
        };
        let opens = async {
            // The other future waits by now, because both run on one thread in turn.
            tokio::task::yield_now().await;
            opened.set(true);
            gate.open();
        };
        let both = async { tokio::join!(reads, opens) };
        tokio::time::timeout(PATIENCE, both).await.expect("the reader goes on");
    }
}
