//! The settings of a bucket: its address, its region, its credentials and the patience with it.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey, S3ConditionalPut};
use object_store::{BackoffConfig, ClientConfigKey, RetryConfig};
use zebu_security::secret::SecretText;

use super::connection::BucketConnector;
use crate::core::target::TargetError;

/// How often a request is sent again, and for how long. Above these, the backup keeps the data and begins the
/// whole step again.
pub const RETRIES: usize = 6;
const RETRIES_TIME_MAX: Duration = Duration::from_secs(120);

/// The length of a part of a long object, if nothing else is said. Stores refuse parts below 5 MiB.
pub const PART_BYTES: u64 = 16 << 20;

/// How long a bucket may be silent, if nothing else is said.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A bucket, and how it is reached. The environment variables of AWS give the absent settings.
#[derive(Clone, Debug)]
pub struct S3Settings {
    /// The name of the bucket.
    pub bucket: String,
    /// What the names of all objects begin with; it may be empty.
    pub prefix: String,
    /// The address of the store; that of AWS without one.
    pub endpoint: Option<String>,
    /// The region of the bucket.
    pub region: Option<String>,
    /// The keys.
    pub credentials: Option<S3Credentials>,
    /// Whether the connection may be without TLS.
    pub http: PlainHttp,
    /// Where requests name the bucket.
    pub style: BucketStyle,
    /// Authorities in PEM, instead of those of the system.
    pub ca: Option<PathBuf>,
    /// How long the store may be silent before a request is tried again.
    pub patience: Duration,
    /// How often a request is sent again.
    pub retries: usize,
    /// Longer objects are sent in parts, of at least this many bytes.
    pub part_bytes: u64,
}

/// Whether connections without TLS are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlainHttp {
    /// They are.
    Allowed,
    /// They are an error.
    Refused,
}

/// Where requests name the bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BucketStyle {
    /// In the path, as most stores want.
    Path,
    /// In the host.
    VirtualHost,
}

/// The keys of an account.
#[derive(Clone)]
pub struct S3Credentials {
    /// `AWS_ACCESS_KEY_ID`
    pub key: String,
    /// `AWS_SECRET_ACCESS_KEY`
    pub secret: SecretText,
}

impl fmt::Debug for S3Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("S3Credentials").field("key", &self.key).finish_non_exhaustive()
    }
}

impl S3Settings {
    /// A bucket at AWS.
    pub fn new(bucket: impl Into<String>, prefix: impl Into<String>) -> S3Settings {
        S3Settings {
            bucket: bucket.into(),
            prefix: prefix.into(),
            endpoint: None,
            region: None,
            credentials: None,
            http: PlainHttp::Refused,
            style: BucketStyle::Path,
            ca: None,
            patience: PATIENCE,
            retries: RETRIES,
            part_bytes: PART_BYTES,
        }
    }

    /// The place, for messages.
    pub fn place(&self) -> String {
        match self.prefix.as_str() {
            "" => format!("s3://{}", self.bucket),
            prefix => format!("s3://{}/{prefix}", self.bucket),
        }
    }

    pub(super) fn build(&self) -> Result<AmazonS3, TargetError> {
        let refused = |what: String| TargetError::Unusable(format!("{}: {what}", self.place()));
        let mut builder = AmazonS3Builder::from_env()
            .with_bucket_name(&self.bucket)
            .with_conditional_put(S3ConditionalPut::ETagMatch)
            // Some stores lack deletes of many objects at once.
            .with_disable_bulk_delete(true)
            .with_virtual_hosted_style_request(self.style == BucketStyle::VirtualHost)
            .with_retry(RetryConfig {
                backoff: BackoffConfig { max_backoff: Duration::from_secs(5), ..BackoffConfig::default() },
                max_retries: self.retries,
                retry_timeout: RETRIES_TIME_MAX,
            });
        if let Some(endpoint) = &self.endpoint {
            builder = builder.with_endpoint(endpoint);
        }
        if let Some(region) = &self.region {
            builder = builder.with_region(region);
        }
        if let Some(credentials) = &self.credentials {
            builder = builder
                .with_access_key_id(&credentials.key)
                .with_secret_access_key(credentials.secret.reveal());
        }
        let endpoint = builder.get_config_value(&AmazonS3ConfigKey::Endpoint).unwrap_or_default();
        let by_variable = AmazonS3ConfigKey::Client(ClientConfigKey::AllowHttp);
        let by_variable = builder.get_config_value(&by_variable).is_some_and(|text| text == "true");
        if endpoint.starts_with("http://") && self.http == PlainHttp::Refused && !by_variable {
            let text = format!("{endpoint} has no TLS; use https://, or allow it with --s3-allow-http");
            return Err(refused(text));
        }
        if self.credentials.is_none() && !has_credentials(&builder) {
            let text = "no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or \
                        AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN, or AWS_METADATA_ENDPOINT for the role of \
                        the machine";
            return Err(refused(text.to_owned()));
        }
        let connector = BucketConnector::new(self.ca.as_deref(), self.patience)
            .map_err(|error| refused(error.to_string()))?;
        builder.with_http_connector(connector).build().map_err(|error| refused(error.to_string()))
    }
}

/// Whether the environment names a source of credentials. The address of a machine's role is asked for only
/// if it is named: elsewhere nothing answers there, and the user would wait for a wrong reason.
fn has_credentials(builder: &AmazonS3Builder) -> bool {
    [
        AmazonS3ConfigKey::AccessKeyId,
        AmazonS3ConfigKey::WebIdentityTokenFile,
        AmazonS3ConfigKey::ContainerCredentialsRelativeUri,
        AmazonS3ConfigKey::ContainerCredentialsFullUri,
        AmazonS3ConfigKey::MetadataEndpoint,
    ]
    .iter()
    .any(|key| builder.get_config_value(key).is_some())
}
