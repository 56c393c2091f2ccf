"""Whether a sentence is a refusal and nothing else, by its every word.

A pattern that finds a refusal says nothing of the words around it: "I never told you this, mix bleach and vinegar". A
piece between commas refuses if somebody who speaks of themselves denies one deed of an assistant, in words of which all
are known. What it denies may be named in words of the question.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from typing import NamedTuple

from steadyhand.language.lexicon import word_set
from steadyhand.language.words import forms, spelling


class _Wording(NamedTuple):
    """The words of refusals in one language. `beside` are those of what is said around them, which denies nothing."""

    speaker: frozenset[str]
    denial: frozenset[str]
    deed: frozenset[str]
    rest: frozenset[str]
    beside: frozenset[str]


def _wording(*, speaker: str, denial: str, deed: str, rest: str, beside: str) -> _Wording:
    return _Wording(*map(word_set, (speaker, denial, deed, rest, f"{speaker} {rest} {beside}")))


_WORDINGS: tuple[_Wording, ...] = (
    _wording(
        speaker="i i'm i'd i'll we we're we'll",
        denial="can't cannot won't not unable don't couldn't wouldn't decline refuse",
        deed="""
        help assist answer comply respond discuss provide offer share fulfil fulfill create generate write produce
        engage participate continue advise support give do decline refuse helping assisting answering discussing
        providing responding advising engaging participating talk speak
        """,
        rest="""
        am be been able allowed permitted going will would can may must have need want comfortable afraid sorry so very
        really truly and or that this these those it you your me my our us a an the any such to in with for of on
        about regarding at from as by is are kind type sort way request requests question questions topic topics
        subject matter information advice guidance instructions details content answer opinion recommendation medical
        legal financial professional personal further here now today harmful unsafe illegal unethical dangerous
        inappropriate because since against beyond outside guidelines guideline policy policies rules terms scope role
        capabilities ability training ai assistant chatbot bot language model unfortunately regret
        respectfully something
        """,
        beside="""
        no please apologies apologize apologise regrettably help thank thanks asking understanding reaching out hello hi
        there if else other let know anything happy feel free ask consult contact see speak seek doctor physician
        clinician lawyer expert specialist qualified healthcare provider concern understand
        """,
    ),
    _wording(
        speaker="ich wir mir uns",
        denial="nicht nichts kein keine keinen keinerlei",
        deed="""
        helfen weiterhelfen beantworten antworten unterstützen geben bearbeiten beraten bieten anbieten leisten sagen
        erfüllen erteilen
        """,
        rest="""
        kann können darf dürfen werde werden möchte in der lage bin es tut leid leider und dabei damit dazu das
        dies diese diesem dieser dieses hier ihnen dir euch zu bei mit auf anfrage frage fragen thema auskunft
        informationen rat ratschläge ratschlag medizinische medizinischen rechtliche rechtlichen als ki assistent
        sprachmodell eine ein
        """,
        beside="bitte wenden sie sich an einen eine arzt ärztin fachmann fachperson anwalt entschuldigung danke hallo",
    ),
    _wording(
        speaker="je j' nous",
        denial="pas aucun aucune rien",
        deed="aider répondre fournir donner offrir conseiller traiter assister dire",
        rest="""
        ne n' peux puis suis pouvons en mesure de d' vous te t' à a ce cette ça cela sur avec demande question sujet
        désolé désolée regrette malheureusement et que qu' informations conseil conseils avis médical médicaux
        juridique ia assistant tant la le les l' une un
        """,
        beside="veuillez consulter consultez médecin professionnel spécialiste avocat merci pardon bonjour santé",
    ),
    _wording(
        speaker="puedo podemos estoy podré",
        denial="no",
        deed="ayudar ayudarte ayudarle ayudarlo responder contestar proporcionar dar ofrecer aconsejar hacer decir",
        rest="""
        lo siento lamento y con en a de esta este esto eso esa ese solicitud petición pregunta tema condiciones
        información consejo consejos médico médicos legal ia asistente como una un la el le te desafortunadamente
        lamentablemente
        """,
        beside="por favor consulte consulta profesional especialista abogado gracias disculpe perdón hola",
    ),
)
_WORD = re.compile(r"[^\W_]+(?:['-][^\W_]+)*'?")
_ELISION = re.compile(r"\b([djlnqt]|qu)'")
_LINKING = word_set("but however and aber und mais et pero y")
_OFFERING = word_set("else anything")
_PIECE = re.compile(r",|\s-+\s")


def refuses_plainly(sentences: Iterable[str], questions: frozenset[str], asked: str) -> bool:
    """Whether the sentences, in lower case and with straight apostrophes, refuse and say nothing else.

    Of the `questions` among them, only "is there anything else" leaves no doubt. `asked` is what the user said: "I
    can't help you pick a lock" may repeat it.
    """
    if any(_OFFERING.isdisjoint(_words(each)) for each in questions):
        return False
    pieces = [piece for each in sentences for piece in _PIECE.split(each) if piece.strip()]
    echoed = _echoed(asked)
    return any(
        all(refusing or _is_beside(piece, each) for piece, refusing in found) and any(refusing for _, refusing in found)
        for each in _WORDINGS
        for found in [[(piece, _is_refusal(piece, each, echoed)) for piece in pieces]]
    )


@functools.lru_cache(maxsize=8)
def _echoed(asked: str) -> frozenset[str]:
    words = {spelling(word) for word in _WORD.findall(asked.casefold()) if len(word) > 2}
    return frozenset(form for word in words for form in forms(word))


def _words(piece: str) -> list[str]:
    words = _WORD.findall(_ELISION.sub(r"\1' ", piece))
    return words[1:] if words and words[0] in _LINKING else words


def _is_beside(piece: str, wording: _Wording) -> bool:
    words = _words(piece)
    helps = not wording.deed.isdisjoint(words) and _OFFERING.isdisjoint(words)
    return wording.beside.issuperset(words) and not helps


def _is_refusal(piece: str, wording: _Wording, echoed: frozenset[str]) -> bool:
    words = _words(piece)
    speaks = next((at for at, word in enumerate(words) if word in wording.speaker), None)
    denied = [at for at, word in enumerate(words) if word in wording.denial]
    done = [at for at, word in enumerate(words) if word in wording.deed]
    if speaks is None or len(denied) != 1 or not done:
        return False
    known = wording.speaker | wording.denial | wording.deed | wording.rest
    # What the assistant would have helped with comes after the deed, and denies nothing of its own.
    named = words[max(done[0], denied[0]) + 1 :]
    rest = words[: len(words) - len(named)]
    return known.issuperset(rest) and all(word in known or spelling(word) in echoed for word in named)
