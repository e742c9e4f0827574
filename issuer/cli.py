"""``issuer``: the command of a party that vouches for people. Its subcommands import what they need when they run."""

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from common.core.terminal import deliver_json, say
from common.net.cli import AllowOrigin, ServiceTlsOptions, application, end_with_stdin, serving

app = application(
    "The issuer: vouches that agents are people, without learning which agent is whose. It is none of the others."
)

State = Annotated[Path, typer.Option(help="The issuer's state directory: keys, and hashes of invitation codes.")]


@app.command("serve")
def serve_command(
    *,
    state: State,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes any free one.", min=0, max=65535)] = 8011,
    allow_origin: AllowOrigin = None,
    tls: ServiceTlsOptions,
) -> None:
    """Sign blinded tokens for those who were invited, one for each code; what is signed, it cannot see.

    Its public keys are in issuer.json in the state directory: referees (referee serve --issuer) and auditors (referee
    audit --issuer) are given this file.

    Example: issuer serve --state /var/lib/issuer
    """
    from common.net.server import listen, serve
    from issuer.issuer import Issuer, issuer_app

    end_with_stdin()
    context = serving("issuer", tls)
    with listen(host, port) as listener, closing(Issuer(state)) as issuer:
        say(f"issuer {issuer.public.fingerprint()[:16]}..., public keys in {state / 'issuer.json'}")
        serve(issuer_app(issuer, state, allow_origin or ()), listener, "issuer", context)


@app.command("invite")
def invite_command(
    state: State, count: Annotated[int, typer.Option(help="How many people to invite.", min=1, max=1_000_000)] = 1
) -> None:
    """Print invitation codes, one a line, each good for one credential; they are not shown again, only hashes are kept.

    Give each person one, by a way that the referee does not see. It works while the issuer serves, too.

    Example: issuer invite --count 500 --state /var/lib/issuer
    """
    from issuer.issuer import InvitationCodes

    with closing(InvitationCodes(state)) as codes:
        for code in codes.invite(count):
            say(code)


@app.command("grant")
def grant_command(
    key: Annotated[str, typer.Argument(help="The host's public key, as local-agent key prints it.")],
    state: State,
    name: Annotated[str, typer.Option(help="Whose people they are; audits print it.")],
    people: Annotated[int, typer.Option(help="For how many people the host may speak, at most.", min=1)],
) -> None:
    """Print a grant for a host: that it speaks for at most so many people of a named organisation.

    The host shows it when it enrols (local-agent host --grant FILE).

    Example: issuer grant 4f1d...90 --name "City Hospital" --people 5000 --state /var/lib/issuer > grant.json
    """
    from issuer.issuer import grant

    deliver_json(grant(state, key, name, people).wire())


@app.command("show")
def show_command(state: State) -> None:
    """Print the issuer's fingerprint, how many codes it has given out, and how many were used.

    The number of credentials that it has issued bounds how many individuals it vouches for in any audit.

    Example: issuer show --state /var/lib/issuer
    """
    from common.core.errors import BadInput
    from issuer.issuer import InvitationCodes, Keys, is_state

    if not is_state(state):
        raise BadInput(
            f"{state} is no state directory of an issuer (issuer serve makes one): look for a mistyped character"
        )
    keys = Keys(state)
    with closing(InvitationCodes(state)) as codes:
        total, used = codes.counts()
    say(f"issuer {keys.public.fingerprint()}: {total:,} invitation codes, {used:,} credentials issued")


main = app  # of the entry point (tandem.commands)


if __name__ == "__main__":
    main()
