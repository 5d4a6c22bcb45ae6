//! TLS of HTTPS checks.
//!
//! A health check asks whether a server serves, mostly by its address, so any certificate is fine unless the check names
//! those that must have signed it. The handshake's signature is always verified: whoever answers holds the key.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::http::Request;
use super::progress::{Progress, words};
use crate::health::check::Check;
use crate::health::round::{Fault, Stage};

/// Configurations by the certificates that they trust, made once and anew when the file changes.
#[derive(Debug)]
pub(super) struct TlsConfigs {
    provider: Arc<CryptoProvider>,
    any: Arc<ClientConfig>,
    by_file: Mutex<HashMap<PathBuf, (SystemTime, Arc<ClientConfig>)>>,
}

impl TlsConfigs {
    pub(super) fn new() -> Result<Self, rustls::Error> {
        let provider = Arc::new(ring::default_provider());
        let verifier = Arc::new(AnyCertificate { provider: Arc::clone(&provider) });
        let any = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        Ok(Self { provider, any: Arc::new(any), by_file: Mutex::default() })
    }

    /// Makes the connection a secure one.
    pub(super) async fn handshake(
        &self,
        check: &Check,
        request: &Request<'_>,
        stream: TcpStream,
        progress: &Progress,
    ) -> Result<TlsStream<TcpStream>, Fault> {
        progress.enter(Stage::Handshake);
        let config = match &check.ca_file {
            Some(path) => self.of_file(path)?,
            None => Arc::clone(&self.any),
        };
        let name = server_name(request.host, request.target.ip())?;
        TlsConnector::from(config).connect(name, stream).await.map_err(|error| {
            let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
            match tls {
                Some(tls) => Fault::Tls { said: tls.to_string() },
                None => progress.fault(&error),
            }
        })
    }

    fn of_file(&self, path: &Path) -> Result<Arc<ClientConfig>, Fault> {
        let local = |said: String| Fault::Local { said: format!("{}: {said}", path.display()) };
        let changed =
            path.metadata().and_then(|metadata| metadata.modified()).map_err(|error| local(words(&error)))?;
        let mut by_file = self.by_file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, config)) = by_file.get(path)
            && *at == changed
        {
            return Ok(Arc::clone(config));
        }
        let mut roots = RootCertStore::empty();
        let certificates = CertificateDer::pem_file_iter(path).map_err(|error| local(error.to_string()))?;
        for certificate in certificates {
            let certificate = certificate.map_err(|error| local(error.to_string()))?;
            roots.add(certificate).map_err(|error| local(error.to_string()))?;
        }
        if roots.is_empty() {
            return Err(local("no certificate is in there".to_owned()));
        }
        let config = ClientConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| local(error.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let config = Arc::new(config);
        by_file.insert(path.to_owned(), (changed, Arc::clone(&config)));
        Ok(config)
    }
}

/// The name that the certificate is asked for: the host without its port, or the address.
fn server_name(host: Option<&str>, address: IpAddr) -> Result<ServerName<'static>, Fault> {
    let Some(host) = host else { return Ok(ServerName::from(address)) };
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((v6, _)) => v6,
        None if host.matches(':').count() == 1 => host.split(':').next().unwrap_or(host),
        None => host,
    };
    ServerName::try_from(name.to_owned())
        .map_err(|_| Fault::Local { said: format!("{name:?} is no name that a certificate can have") })
}

/// Takes any certificate of whoever proves to hold its key.
#[derive(Debug)]
struct AnyCertificate {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_certificate_is_asked_for_the_host_without_its_port() {
        let address = IpAddr::from([192, 0, 2, 10]);
        let name = |host| server_name(host, address).unwrap().to_str().into_owned();
        assert_eq!(name(None), "192.0.2.10");
        assert_eq!(name(Some("web.example")), "web.example");
        assert_eq!(name(Some("web.example:8443")), "web.example");
        assert_eq!(name(Some("[2001:db8::10]:8443")), "2001:db8::10");
        assert_eq!(name(Some("2001:db8::10")), "2001:db8::10");
        assert!(server_name(Some("not a name"), address).unwrap_err().is_local());
    }
}
