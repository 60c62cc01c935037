//! The admin server: addresses, protection and limits.
//!
//! Nothing here opens a port. The crate `zebu-admin` serves from these values only.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use zebu_tree::access::IpNetwork;

use super::listen::resolve;
use super::load::SystemAccess;
use super::security::tls::read_checked_family;
use super::security::tls_family::{ClientAuth, TlsFamily, TlsFamilyConfig};
use super::server_config::BindAddress;
use super::setting_reader::{NumberUnit, SettingReader};

/// ZooKeeper's port of the admin server.
pub const ADMIN_PORT_DEFAULT: u16 = 8080;
const COMMAND_URL_DEFAULT: &str = "/commands";
/// First parts of the other routes of the admin port.
const RESERVED_URLS: [&str; 6] = ["live", "ready", "version", "metrics", "v1", "console"];
const IDLE_TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);
const RATE_INTERVAL_DEFAULT: Duration = Duration::from_secs(300);
const RESTORE_BYTES_DEFAULT: u64 = 8 << 30;

/// Where a port number comes from. A default port that is in use is no reason to refuse the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortOrigin {
    /// The operator named the port.
    Configured,
    /// ZooKeeper's default.
    Default,
}

/// The protection of the admin port.
#[derive(Debug, Clone, PartialEq)]
pub enum AdminProtection {
    /// Plain HTTP.
    Plain,
    /// `admin.portUnification`: plain HTTP and TLS; the first byte decides.
    PlainOrTls(Box<TlsFamilyConfig>),
    /// `admin.forceHttps`: TLS only.
    Tls(Box<TlsFamilyConfig>),
}

/// What the HTTP API of the admin port allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApiAccess {
    /// There is none. The default.
    Off,
    /// `admin.api.enabled=true` and `admin.api.readOnly=true`.
    ReadOnly,
    /// `admin.api.enabled=true`.
    ReadWrite,
}

/// What the web console of the admin port allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConsoleSetting {
    /// There is none. The default for a port that other machines reach.
    Off,
    /// `admin.console.readOnly=true`.
    ReadOnly,
    /// Pages also write, after their user asked for it. The default on loopback.
    ReadWrite,
}

/// The admin server.
#[derive(Debug, Clone, PartialEq)]
pub struct AdminConfig {
    /// `admin.serverAddress` and `admin.serverPort`; loopback unless an address is set.
    pub address: SocketAddr,
    /// Whether `admin.serverPort` is set.
    pub port_origin: PortOrigin,
    /// `admin.idleTimeout`: a connection without a request is closed after this time.
    pub idle_timeout: Duration,
    /// `admin.commandURL`: the prefix of all commands, without a slash at its end.
    pub command_url: String,
    /// `admin.portUnification`, `admin.forceHttps` and `admin.needClientAuth`.
    pub protection: AdminProtection,
    /// `admin.rateLimiterIntervalInMS`: time between two snapshots, and between two restores.
    pub rate_limiter_interval: Duration,
    /// `admin.snapshot.enabled`.
    pub snapshot_enabled: bool,
    /// `admin.restore.enabled`.
    pub restore_enabled: bool,
    /// `admin.restore.maxBytes`: bytes of a snapshot that `restore` takes, also when it is unpacked.
    pub restore_bytes_max: u64,
    /// `admin.allowedHosts`: names in the Host header that a port on loopback accepts.
    pub allowed_hosts: Vec<String>,
    /// `IPAuthenticationProvider.usexforwardedfor` and `admin.trustedProxies`: proxies whose header
    /// X-Forwarded-For names the client.
    pub trusted_proxies: Vec<IpNetwork>,
    /// `admin.api.enabled` and `admin.api.readOnly`.
    pub api: ApiAccess,
    /// `admin.console.enabled` and `admin.console.readOnly`.
    pub console: ConsoleSetting,
}

/// Reads the admin server; `None` if it is off.
pub(super) fn read_admin(
    reader: &mut SettingReader<'_>,
    system: &dyn SystemAccess,
    quorum_tls: Option<&TlsFamilyConfig>,
) -> Option<AdminConfig> {
    warn_unknown_keys(reader);
    if !is_enabled(reader) {
        return None;
    }
    let (port, port_origin) = read_port(reader, "admin.serverPort", ADMIN_PORT_DEFAULT);
    let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let address = read_address(reader, "admin.serverAddress", port, loopback, system);
    let idle_timeout = reader.millis("admin.idleTimeout", 1, IDLE_TIMEOUT_DEFAULT);
    let rate_limiter_interval = reader.millis("admin.rateLimiterIntervalInMS", 0, RATE_INTERVAL_DEFAULT);
    let protection = protection(reader, system, quorum_tls);
    let console = console_setting(reader, address, &protection);
    Some(AdminConfig {
        address,
        port_origin,
        idle_timeout,
        command_url: command_url(reader),
        protection,
        rate_limiter_interval,
        snapshot_enabled: reader.loose_switch("admin.snapshot.enabled", true),
        restore_enabled: reader.loose_switch("admin.restore.enabled", true),
        restore_bytes_max: restore_bytes_max(reader),
        allowed_hosts: allowed_hosts(reader),
        trusted_proxies: trusted_proxies(reader),
        api: api_access(reader),
        console,
    })
}

const ADMIN_KEYS: [&str; 20] = [
    "admin.enableServer",
    "admin.serverAddress",
    "admin.serverPort",
    "admin.idleTimeout",
    "admin.commandURL",
    "admin.httpVersion",
    "admin.portUnification",
    "admin.forceHttps",
    "admin.needClientAuth",
    "admin.rateLimiterIntervalInMS",
    "admin.snapshot.enabled",
    "admin.restore.enabled",
    "admin.restore.maxBytes",
    "admin.allowedHosts",
    "admin.trustedProxies",
    "admin.api.enabled",
    "admin.api.readOnly",
    "admin.console.enabled",
    "admin.console.readOnly",
    "admin.console.plaintext",
];

fn restore_bytes_max(reader: &mut SettingReader<'_>) -> u64 {
    let number = reader.number("admin.restore.maxBytes", 1..=i64::MAX, NumberUnit::Bytes);
    number.and_then(|number| u64::try_from(number).ok()).unwrap_or(RESTORE_BYTES_DEFAULT)
}

fn warn_unknown_keys(reader: &mut SettingReader<'_>) {
    let keys = reader.settings.values.keys().filter(|key| key.starts_with("admin."));
    let unknown: Vec<String> = keys.filter(|key| !ADMIN_KEYS.contains(&key.as_str())).cloned().collect();
    for key in unknown {
        let text = match super::nearest::nearest_name(&key, ADMIN_KEYS.into_iter()) {
            Some(better) => format!("{key} is unknown and has no effect; did you mean {better}?"),
            None => format!("{key} is unknown and has no effect"),
        };
        reader.diagnostics.warn(&reader.origin(&key), text);
    }
}

/// ZooKeeper 3.9: only the word `false` turns the server off.
fn is_enabled(reader: &mut SettingReader<'_>) -> bool {
    let key = "admin.enableServer";
    let Some(setting) = reader.get(key) else { return true };
    let is_off = setting.value.eq_ignore_ascii_case("false");
    if !is_off && !setting.value.eq_ignore_ascii_case("true") {
        let text =
            format!("{key} = \"{}\" counts as true, as in ZooKeeper; write true or false", setting.value);
        reader.diagnostics.warn(&setting.origin, text);
    }
    !is_off
}

/// The port, and whether it is set.
pub(super) fn read_port(reader: &mut SettingReader<'_>, key: &str, default: u16) -> (u16, PortOrigin) {
    let number = reader.number(key, 0..=65535, NumberUnit::Port);
    match number.and_then(|port| u16::try_from(port).ok()) {
        Some(port) => (port, PortOrigin::Configured),
        None => (default, PortOrigin::Default),
    }
}

/// The address of a listener.
pub(super) fn read_address(
    reader: &mut SettingReader<'_>,
    key: &str,
    port: u16,
    default: IpAddr,
    system: &dyn SystemAccess,
) -> SocketAddr {
    let unset = SocketAddr::new(default, port);
    match reader.get(key).filter(|setting| !setting.value.is_empty()) {
        None => unset,
        Some(host) => match resolve(reader, key, host, port, system) {
            Some(BindAddress::Address(address)) => address,
            Some(BindAddress::AllInterfaces { .. }) | None => unset,
        },
    }
}

fn command_url(reader: &mut SettingReader<'_>) -> String {
    let key = "admin.commandURL";
    let Some(setting) = reader.get(key) else { return COMMAND_URL_DEFAULT.to_owned() };
    let url = setting.value.trim_end_matches('/');
    let is_path = url.strip_prefix('/').is_some_and(|rest| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "/-_.~".contains(c);
        let is_reserved = RESERVED_URLS.contains(&rest.split('/').next().unwrap_or_default());
        !rest.is_empty() && rest.chars().all(is_plain) && !rest.contains("//") && !is_reserved
    });
    if !is_path {
        reader.report_invalid(
            key,
            setting,
            "a path such as /commands of letters, digits and / - _ . ~, and no other route of the port",
        );
        return COMMAND_URL_DEFAULT.to_owned();
    }
    url.to_owned()
}

/// The keys of the admin port are those between servers, as in ZooKeeper. They are read once.
fn protection(
    reader: &mut SettingReader<'_>,
    system: &dyn SystemAccess,
    quorum_tls: Option<&TlsFamilyConfig>,
) -> AdminProtection {
    let force_https = reader.strict_switch("admin.forceHttps", false);
    let port_unification = reader.strict_switch("admin.portUnification", false);
    let need_client_auth = reader.strict_switch("admin.needClientAuth", false);
    if !force_https && !port_unification {
        if need_client_auth {
            let key = "admin.needClientAuth";
            let text =
                format!("{key}=true needs TLS; set admin.forceHttps=true or admin.portUnification=true");
            reader.diagnostics.error(&reader.origin(key), text);
        }
        return AdminProtection::Plain;
    }
    let asked_by = if force_https { "admin.forceHttps" } else { "admin.portUnification" };
    let family = match quorum_tls {
        Some(family) => Some(family.clone()),
        None => read_checked_family(reader, system, TlsFamily::Quorum, asked_by),
    };
    let Some(mut family) = family else {
        // An error was reported, so no server starts with this value.
        return AdminProtection::Plain;
    };
    family.client_auth = if need_client_auth { ClientAuth::Need } else { ClientAuth::None };
    if force_https {
        return AdminProtection::Tls(Box::new(family));
    }
    if need_client_auth {
        let text = "admin.portUnification=true: plain HTTP stays open without a certificate, as in ZooKeeper; set \
                    admin.forceHttps=true to require one";
        reader.diagnostics.warn(&reader.origin("admin.needClientAuth"), text);
    }
    AdminProtection::PlainOrTls(Box::new(family))
}

/// A word that is not understood refuses the start: neither meaning of it may be a surprise.
fn api_access(reader: &mut SettingReader<'_>) -> ApiAccess {
    let is_enabled = reader.strict_switch("admin.api.enabled", false);
    let is_read_only = reader.strict_switch("admin.api.readOnly", false);
    match (is_enabled, is_read_only) {
        (false, _) => ApiAccess::Off,
        (true, true) => ApiAccess::ReadOnly,
        (true, false) => ApiAccess::ReadWrite,
    }
}

/// On loopback the console is on. For other machines the operator asks for it, with TLS or knowingly without.
fn console_setting(
    reader: &mut SettingReader<'_>,
    address: SocketAddr,
    protection: &AdminProtection,
) -> ConsoleSetting {
    let is_local = address.ip().is_loopback();
    let is_enabled = reader.strict_switch("admin.console.enabled", is_local);
    let is_read_only = reader.strict_switch("admin.console.readOnly", false);
    let may_be_plain = reader.strict_switch("admin.console.plaintext", false);
    if is_enabled && !is_local && !may_be_plain && !matches!(protection, AdminProtection::Tls(_)) {
        let key = "admin.console.enabled";
        let text = format!(
            "{key}=true on {} without TLS: passwords would be readable on the network; set admin.forceHttps=true, or \
             admin.console.plaintext=true to accept it",
            address.ip()
        );
        reader.diagnostics.error(&reader.origin(key), text);
    }
    match (is_enabled, is_read_only) {
        (false, _) => ConsoleSetting::Off,
        (true, true) => ConsoleSetting::ReadOnly,
        (true, false) => ConsoleSetting::ReadWrite,
    }
}

fn allowed_hosts(reader: &SettingReader<'_>) -> Vec<String> {
    let Some(setting) = reader.get("admin.allowedHosts") else { return Vec::new() };
    let names = setting.value.split(',').map(|name| name.trim().to_ascii_lowercase());
    names.filter(|name| !name.is_empty()).collect()
}

/// ZooKeeper believes the header of every client. Here the operator names the proxies that write it.
fn trusted_proxies(reader: &mut SettingReader<'_>) -> Vec<IpNetwork> {
    let (switch, key) = ("IPAuthenticationProvider.usexforwardedfor", "admin.trustedProxies");
    let is_used = reader.strict_switch(switch, false);
    let Some(setting) = reader.get(key).filter(|setting| !setting.value.is_empty()) else {
        if is_used {
            let text = format!("{switch}=true has no effect: name the proxies in {key}");
            reader.diagnostics.warn(&reader.origin(switch), text);
        }
        return Vec::new();
    };
    let mut proxies = Vec::new();
    for text in setting.value.split(',').map(str::trim) {
        match IpNetwork::parse(text) {
            Some(network) => proxies.push(network),
            None => {
                reader.report_invalid(key, setting, "addresses and networks such as 10.0.0.0/8, with commas");
                return Vec::new();
            }
        }
    }
    if !is_used {
        let text = format!("{key} has no effect without {switch}=true");
        reader.diagnostics.warn(&setting.origin, text);
        return Vec::new();
    }
    proxies
}
