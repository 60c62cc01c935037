//! Keys of reads that say how fresh they must be: paths whose reads are linearizable for every client, and
//! the switch of the requests that ZooKeeper does not have.

use super::setting_reader::SettingReader;

/// Paths in `linearizable.paths`: each plain read compares its path with all of them.
const PATHS_MAX: usize = 64;

/// Settings of reads with freshness.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FreshnessConfig {
    /// `zebu.privateRequests`: whether clients may use requests that ZooKeeper does not have.
    pub private_requests: bool,
    /// `linearizable.paths`: reads at or below these paths are linearizable.
    pub linearizable_paths: Vec<String>,
}

impl Default for FreshnessConfig {
    fn default() -> FreshnessConfig {
        FreshnessConfig { private_requests: true, linearizable_paths: Vec::new() }
    }
}

pub(super) fn read_freshness(reader: &mut SettingReader<'_>) -> FreshnessConfig {
    let private_requests = reader.strict_switch("zebu.privateRequests", true);
    FreshnessConfig { private_requests, linearizable_paths: read_paths(reader) }
}

fn read_paths(reader: &mut SettingReader<'_>) -> Vec<String> {
    let key = "linearizable.paths";
    let Some(setting) = reader.get(key) else { return Vec::new() };
    let listed = setting.value.split(',').map(str::trim).filter(|path| !path.is_empty());
    let paths: Vec<String> = listed.map(str::to_owned).collect();
    if paths.len() > PATHS_MAX || paths.iter().any(|path| zebu_tree::path::validate(path).is_err()) {
        reader.report_invalid(
            key,
            setting,
            "up to 64 paths of nodes, separated by commas, such as /locks,/config",
        );
        return Vec::new();
    }
    paths
}
