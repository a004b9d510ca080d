"""Where the cluster is and as whom to speak: arguments, then environment, then the context of railctl's configuration file."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import _yaml
from .errors import ConfigError

#: The controller's port where an address names none.
DEFAULT_PORT = 7443
#: The name that a controller's certificate has for whoever reaches it by a unix socket.
CONTROLLER_NAME = "controller.rail.internal"
#: The first part of every API token.
TOKEN_PREFIX = "rail-user-v1"

_TOKEN = re.compile(rf"{TOKEN_PREFIX}\.[0-9a-f]{{16}}\.[0-9a-f]{{64}}")
_FIELDS = ("controller", "ca", "cert", "key", "token", "tenant")


@dataclass(frozen=True)
class Endpoint:
    """One address of a controller: a host with its port, or the path of a unix socket. Both speak TLS."""

    host: str = ""
    port: int = 0
    path: str = ""

    @classmethod
    def parse(cls, text: str) -> Endpoint:
        """Reads `https://host:port` or `unix:/path`. Raises ConfigError."""
        if text.startswith("unix:"):
            path = text.removeprefix("unix:").removeprefix("//")
            if not path.startswith("/") or "\0" in path:
                raise ConfigError(f"`{text}` is not an endpoint: expected https://host:port or unix:/path")
            return cls(path="/" + path.lstrip("/"))
        if text.startswith("http://"):
            raise ConfigError(f"`{text}`: there is no unencrypted API; write https://")
        found = re.fullmatch(r"https://(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::([0-9]{1,5}))?/?", text)
        if not found:
            raise ConfigError(f"`{text}` is not an endpoint: expected https://host:port or unix:/path")
        port = int(found[3]) if found[3] else DEFAULT_PORT
        if not 0 < port < 65536:
            raise ConfigError(f"`{port}` is not a port")
        return cls(host=found[1] or found[2], port=port)

    @property
    def server_name(self) -> str:
        """The name that the server's certificate must carry."""
        return CONTROLLER_NAME if self.path else self.host

    @property
    def authority(self) -> str:
        """What stands in requests as the host."""
        if self.path:
            return CONTROLLER_NAME
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __str__(self) -> str:
        return f"unix:{self.path}" if self.path else f"https://{self.authority}"


@dataclass(frozen=True)
class Settings:
    """What is needed to reach a controller. Paths name PEM files; `token` is a token itself, never shown."""

    controller: tuple[Endpoint, ...] = ()
    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    token: str | None = field(default=None, repr=False)
    #: The tenant to act for; empty: the caller's own, or all for an administrator's lists.
    tenant: str = ""

    @classmethod
    def load(
        cls,
        *,
        context: str | None = None,
        controller: str | Sequence[str] | None = None,
        ca: str | os.PathLike[str] | None = None,
        cert: str | os.PathLike[str] | None = None,
        key: str | os.PathLike[str] | None = None,
        token: str | os.PathLike[str] | None = None,
        tenant: str | None = None,
        config: str | os.PathLike[str] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> Settings:
        """Settings as railctl finds them: argument, then environment (`RAIL_CONTROLLER`, ...), then the context.

        An identity (certificate with key, or token) is taken whole from the first place that names any part of it. Raises
        ConfigError: no controller or CA is known, a context is not there, a file cannot be read, an identity is incomplete.
        """
        env = {name: value for name, value in (os.environ if environ is None else environ).items() if value}
        given = [controller] if isinstance(controller, str) else list(controller or ())
        found = _context(context, bool(given), env, config)
        addresses = given or [one.strip() for one in env.get("RAIL_CONTROLLER", "").split(",") if one.strip()]
        identities: list[tuple[str | None, str | None, str | None]] = [
            (_text(cert), _text(key), _text(token)),
            (env.get("RAIL_CERT"), env.get("RAIL_KEY"), env.get("RAIL_TOKEN")),
            (found.get("cert"), found.get("key"), found.get("token")),
        ]
        identity = next((one for one in identities if any(one)), (None, None, None))
        named = tenant if tenant is not None else env.get("RAIL_TENANT")
        settings = cls(
            controller=tuple(Endpoint.parse(one) for one in addresses or found.get("controller") or ()),
            ca=_text(ca) or env.get("RAIL_CA") or found.get("ca"),
            cert=identity[0],
            key=identity[1],
            token=_token(identity[2]),
            tenant=(found.get("tenant") or "") if named is None else named,
        )
        settings.check()
        return settings

    def check(self) -> None:
        """Raises ConfigError where something is missing that every call needs."""
        if not self.controller:
            raise ConfigError(
                "no controller is known: give controller= or RAIL_CONTROLLER, or start a local cluster with `railctl dev up`, "
                "which makes a context in the configuration file"
            )
        if not self.ca:
            raise ConfigError(
                "no CA certificate is known, so the controller could not be verified: give ca= or RAIL_CA"
            )
        if bool(self.cert) != bool(self.key):
            raise ConfigError(
                f"a client certificate and its key go together: {'key' if self.cert else 'certificate'} is not given"
            )


def _text(path: str | os.PathLike[str] | None) -> str | None:
    return os.fspath(path) if path else None


def _token(text: str | None) -> str | None:
    """The token itself, or what a file of that name holds.

    No error shows it, nor what was taken for a file's name, nor has it as a cause: that may be the secret, written badly.
    """
    if text is None:
        return None
    if not text.startswith(TOKEN_PREFIX):
        wrong = ""
        try:
            text = Path(text).read_text(encoding="utf-8").strip()
        except OSError as error:
            wrong = error.strerror or type(error).__name__
        except ValueError:
            wrong = "it is no text, or its name is none"
        if wrong:
            raise ConfigError(
                f"credentials: not a token, which begins with `{TOKEN_PREFIX}.` and has neither blanks nor quotation marks, nor the path of "
                f"a file that can be read: {wrong}"
            )
    if not _TOKEN.fullmatch(text):
        raise ConfigError(f"credentials: not a token: expected {TOKEN_PREFIX}.<16 hex digits>.<64 hex digits>")
    return text


def config_path(environ: Mapping[str, str]) -> Path | None:
    """Path of railctl's configuration file; None if neither HOME nor RAIL_CONFIG is set."""
    if environ.get("RAIL_CONFIG"):
        return Path(environ["RAIL_CONFIG"])
    base = environ.get("XDG_CONFIG_HOME", "")
    if base.startswith("/"):
        return Path(base) / "railyard/config.yaml"
    return Path(environ["HOME"]) / ".config/railyard/config.yaml" if environ.get("HOME") else None


def _context(
    name: str | None, addressed: bool, env: Mapping[str, str], config: str | os.PathLike[str] | None
) -> dict[str, Any]:
    """The context that is meant; an empty one where none is."""
    path = Path(config) if config else config_path(env)
    current, contexts = _read(path)
    wanted = name or env.get("RAIL_CONTEXT")
    chosen = wanted or current
    if not chosen:
        return {}
    if chosen in contexts:
        return contexts[chosen]
    if not wanted and (addressed or env.get("RAIL_CONTROLLER")):
        return {}
    near = difflib.get_close_matches(chosen, contexts, 1, 0.7)
    if near:
        raise ConfigError(f"there is no context `{chosen}`; did you mean `{near[0]}`?")
    known = f"there are: {', '.join(contexts)}" if contexts else "the configuration file has none"
    raise ConfigError(f"there is no context `{chosen}`; {known}")


def _read(path: Path | None) -> tuple[str | None, dict[str, dict[str, Any]]]:
    """The current context's name, and all contexts; relative paths are relative to the file's folder."""
    if path is None or not path.exists():
        return None, {}
    try:
        value = _yaml.parse(path.read_text(encoding="utf-8"))
    except _yaml.Wrong as error:
        raise ConfigError(f"{path}:{error}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from error
    if value is None:
        return None, {}
    _known(path, value, ("currentContext", "contexts"), "the file")
    contexts = value.get("contexts") or {}
    _known(path, contexts, None, "contexts")
    for name, one in contexts.items():
        contexts[name] = one = {} if one is None else one
        _known(path, one, _FIELDS, f"context `{name}`")
        if isinstance(one.get("controller"), str):
            raise ConfigError(f"{path}: context `{name}`: controller is a list of addresses")
        for part in ("ca", "cert", "key"):
            if one.get(part):
                one[part] = str(path.parent / one[part])
    return value.get("currentContext"), contexts


def _known(path: Path, value: Any, fields: tuple[str, ...] | None, where: str) -> None:
    if not isinstance(value, dict):
        raise ConfigError(f"{path}: {where} is no mapping")
    for name in value:
        if fields is not None and name not in fields:
            raise ConfigError(f"{path}: {where}: unknown field `{name}`, expected one of {', '.join(fields)}")
