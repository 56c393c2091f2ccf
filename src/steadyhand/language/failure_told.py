"""Whether an answer says that something could not be looked up or done, because what it takes did not work.

Yes only where it is stated plainly, of a service or with the speaker as the one who could not reach it. What is said in
other words is not known: no rule says no.
"""

from __future__ import annotations

import functools

import regex

from steadyhand.language.answer import Certainty, Ruling
from steadyhand.language.lexicon import Mark
from steadyhand.language.statements import normal, stated
from steadyhand.text_match import Span

_MOST_READ = 20_000
_SERVICE = (
    r"(?:systems?|services?|tools?|databases?|servers?|backend|api|lookup|search|request|query|call|connection|website)"
)
_DIENST = (
    r"(?:[\p{L}-]*(?:system|dienst|service|datenbank|server|schnittstelle|abfrage|anfrage|suche|verbindung|werkzeug))"
)
_DENIED: tuple[str, ...] = (
    (
        r"\b(?:could|can|was|were|am|are|is)(?: not|n't|not)(?: currently| able to| even)* "
        r"(?:reach|access|retrieve|load|fetch|look up|look that up|pull up|connect|get (?:an answer|a response|through)"
        r"|complete|process|be (?:reached|retrieved|loaded|completed|processed|accessed))\b"
    ),
    (
        r"\b(?:(?:was|were|am|are|been|remain) )?unable to (?:reach|access|retrieve|load|fetch|look up|connect"
        r"|complete|process|find|get)\b"
    ),
    (
        rf"\b{_SERVICE} (?:(?:is|was|are|were|has|have|did|does)(?: not|n't)|cannot|can't|could not|couldn't)"
        r"(?: currently| been)? (?:available|responding|reachable|respond(?:ed)?|answer(?:ed|ing)?|work(?:ing)?"
        r"|be reached)\b"
    ),
    (
        r"\b(?:kann|konnte|können|konnten)\b[^.!?;\n]{0,80}\bnicht (?:erreich\w*|abruf\w*|abgeruf\w*|laden"
        r"|geladen|zugreif\w*|abschließen|abgeschlossen|ausführen|ausgeführt|nachsehen)\b"
    ),
    rf"\b{_DIENST} (?:ist|war|sind) (?:\w+ )?nicht (?:erreichbar|verfügbar)\b",
    (
        r"\bne? ?(?:n'ai|ai|peux|pouvons|puis|parviens)\b[^.!?;\n]{0,20}\b(?:pas|à)\b[^.!?;\n]{0,20}"
        r"\b(?:accéder|joindre|récupérer|charger|contacter|consulter)\b"
    ),
    r"\bn'ai pas pu (?:accéder|joindre|récupérer|charger|contacter|consulter)\b",
    (
        r"\bno (?:he podido|pude|puedo|podemos|se pudo|se puede) "
        r"(?:acceder|obtener|conectar|recuperar|consultar|contactar|cargar)\b"
    ),
)
"""With the negation in them."""

_PLAIN: tuple[str, ...] = (
    (
        rf"\b{_SERVICE} (?:\w+ )?(?:failed|timed out|(?:is|are|was|were|seems to be|appears to be) "
        r"(?:currently |temporarily )?(?:down|unavailable|offline|unreachable)"
        r"|(?:returned|gave|sent|came back with) (?:an error|nothing|no (?:data|results?|answer)"
        r"|an empty (?:result|answer)|incomplete (?:data|results?)))\b"
    ),
    (
        r"\b(?:got|received|ran into|encountered|hit) an? (?:\w+ ){0,2}(?:error|timeout)\b[^.!?;\n]{0,40}"
        rf"\b{_SERVICE}\b"
    ),
    rf"\b(?:error|timeout|outage) (?:in|of|from|with) (?:the|our) (?:\w+ )?{_SERVICE}\b",
    r"\bno (?:answer|response|data) from (?:the|our) \w+",
    rf"\b{_DIENST} (?:ist|war) (?:\w+ )?(?:ausgefallen|fehlgeschlagen|gestört)\b",
    rf"\b{_DIENST} (?:hat|meldet|meldete|antwortet)\b[^.!?;\n]{{0,40}}\b(?:fehler|zeitüberschreitung)\b",
    (
        r"\b(?:service|système|base de données|serveur|outil|requête|recherche) (?:est|était|a)\b"
        r"[^.!?;\n]{0,20}\b(?:indisponible|inaccessible|échoué|panne)\b"
    ),
    (
        r"\b(?:servicio|sistema|base de datos|servidor|herramienta|consulta|búsqueda) (?:está|estaba|ha|no está)\b"
        r"[^.!?;\n]{0,20}\b(?:caído|fallado|inaccesible|fuera de servicio)\b"
    ),
)


_SO = regex.compile(r",? (?:so|and so) (?=(?:I|we)\b)", regex.IGNORECASE)
"""What follows from the failure is a sentence of its own."""


@functools.cache
def _any(patterns: tuple[str, ...]) -> regex.Pattern[str]:
    return regex.compile("|".join(f"(?:{each})" for each in patterns), regex.IGNORECASE)


def says_it_failed(text: str) -> Ruling:
    """Whether the answer tells of the failure: yes, or cannot tell."""
    if len(text) > _MOST_READ:
        return Ruling(answer=Certainty.CANNOT_TELL, why="it is too long to read")
    plain = _SO.sub(". ", normal(text))
    for patterns, allowed in ((_DENIED, (Mark.NEGATION, Mark.CONTRAST)), (_PLAIN, (Mark.CONTRAST,))):
        spans: list[Span] = [found.span() for found in _any(patterns).finditer(plain)]
        for span in spans:
            ruling = stated(plain, [span], strict=False, rest=frozenset(), allowed=allowed)
            if ruling.answer is Certainty.YES:
                return ruling
    return Ruling(answer=Certainty.CANNOT_TELL, why="that something failed is not plainly said")
