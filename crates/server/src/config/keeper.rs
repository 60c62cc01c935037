//! Keys of what ClickHouse finds at this server: the requests of ClickHouse Keeper, and the zone.

use super::setting_reader::SettingReader;

/// Bytes of the longest zone: it is the data of a virtual node.
const ZONE_BYTES_MAX: usize = 256;

/// Settings for ClickHouse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeeperConfig {
    /// `keeperExtensions`: whether clients may use the requests of ClickHouse Keeper.
    pub extensions: bool,
    /// `zebu.zone`: the place of this server, which clients compare with their own.
    pub zone: Option<String>,
}

impl Default for KeeperConfig {
    fn default() -> KeeperConfig {
        KeeperConfig { extensions: true, zone: None }
    }
}

pub(super) fn read_keeper(reader: &mut SettingReader<'_>) -> KeeperConfig {
    KeeperConfig { extensions: read_extensions(reader), zone: read_zone(reader) }
}

fn read_extensions(reader: &mut SettingReader<'_>) -> bool {
    let key = "keeperExtensions";
    let Some(setting) = reader.get(key) else { return true };
    match setting.value.to_ascii_lowercase().as_str() {
        "on" | "true" => true,
        "off" | "false" => false,
        _ => {
            reader.report_invalid(key, setting, "on or off");
            true
        }
    }
}

fn read_zone(reader: &mut SettingReader<'_>) -> Option<String> {
    let key = "zebu.zone";
    let setting = reader.get(key).filter(|setting| !setting.value.is_empty())?;
    if setting.value.len() > ZONE_BYTES_MAX || setting.value.chars().any(char::is_control) {
        reader.report_invalid(key, setting, "a text of up to 256 bytes, such as eu-central-1a");
        return None;
    }
    Some(setting.value.clone())
}
