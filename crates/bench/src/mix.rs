//! Which operations are sent, and in what proportion.

use std::fmt;
use std::str::FromStr;

/// An operation of the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// getData of a prepared node.
    Get,
    /// Linearizable getData of a prepared node; needs Zebu servers.
    LinearGet,
    /// exists of a prepared node.
    Exists,
    /// getChildren2 of the node above the prepared ones.
    Children,
    /// setData of a prepared node.
    Set,
    /// create of a persistent node below a prepared one, and its delete as the session's next turn.
    Create,
    /// create of an ephemeral node beside the prepared ones, and its delete as the session's next turn.
    Ephemeral,
    /// multiRead of four getData.
    MultiRead,
    /// multi of a check and a setData.
    Multi,
    /// ping.
    Ping,
    /// sync.
    Sync,
}

impl Operation {
    /// All operations, by name.
    pub const ALL: [(&'static str, Operation); 11] = [
        ("get", Operation::Get),
        ("linear-get", Operation::LinearGet),
        ("exists", Operation::Exists),
        ("children", Operation::Children),
        ("set", Operation::Set),
        ("create", Operation::Create),
        ("ephemeral", Operation::Ephemeral),
        ("multi", Operation::Multi),
        ("multi-read", Operation::MultiRead),
        ("ping", Operation::Ping),
        ("sync", Operation::Sync),
    ];

    /// The name in a mix.
    pub fn name(self) -> &'static str {
        Operation::ALL.iter().find(|(_, operation)| *operation == self).map_or("", |(name, _)| name)
    }
}

/// Operations with their weights, such as `get=9,set=1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mix {
    weighted: Vec<(Operation, u32)>,
    total: u32,
}

/// Why a text is no mix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is no operation with a weight; write for example get=9,set=1. Operations: get, linear-get, exists, children, set, create, ephemeral, multi, multi-read, ping, sync"
)]
pub struct MixError(String);

impl FromStr for Mix {
    type Err = MixError;

    fn from_str(text: &str) -> Result<Mix, MixError> {
        let mut weighted = Vec::new();
        let mut total = 0u32;
        for part in text.split(',').map(str::trim) {
            let bad = || MixError(part.to_owned());
            let (name, weight) = part.split_once('=').unwrap_or((part, "1"));
            let (_, operation) =
                Operation::ALL.iter().find(|(known, _)| *known == name.trim()).ok_or_else(bad)?;
            let weight: u32 = weight.trim().parse().map_err(|_| bad())?;
            total = total.checked_add(weight).ok_or_else(bad)?;
            weighted.push((*operation, weight));
        }
        if total == 0 { Err(MixError(text.to_owned())) } else { Ok(Mix { weighted, total }) }
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (operation, weight)) in self.weighted.iter().enumerate() {
            write!(f, "{}{}={weight}", if index == 0 { "" } else { "," }, operation.name())?;
        }
        Ok(())
    }
}

impl Mix {
    /// The operation for a random number.
    pub fn pick(&self, random: u64) -> Operation {
        let mut left = (random % u64::from(self.total)) as u32;
        for (operation, weight) in &self.weighted {
            if left < *weight {
                return *operation;
            }
            left -= weight;
        }
        unreachable!("the weights add up to the total")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixes_are_read_and_drawn() {
        let mix: Mix = "get=9, set=1".parse().unwrap();
        assert_eq!(mix.to_string(), "get=9,set=1");
        let sets = (0..1000).filter(|&number| mix.pick(number) == Operation::Set).count();
        assert_eq!(sets, 100);
        for bad in ["", "get=x", "fly", "get=0"] {
            assert!(bad.parse::<Mix>().is_err(), "{bad}");
        }
    }
}
