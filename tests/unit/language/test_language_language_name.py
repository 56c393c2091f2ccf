"""Which language a text is in: never wrong on texts of any language, and sure of ordinary ones."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from steadyhand.language.answer import Certainty
from steadyhand.language.language_name import LANGUAGES, is_in

CORPUS = Path(__file__).parent / "corpus"
KNOWN = {
    "en": "To return it, open the page with your orders and choose the one that you no longer want.",
    "de": "Um den Artikel zurückzusenden, öffnen Sie die Seite mit Ihren Bestellungen und wählen Sie ihn aus.",
    "fr": "Pour retourner l'article, ouvrez la page de vos commandes et choisissez celui que vous ne voulez plus.",
    "es": "Para devolver el artículo, abra la página de sus pedidos y elija el que ya no quiere tener.",
    "it": "Per restituire l'articolo, apri la pagina dei tuoi ordini e scegli quello che non vuoi più.",
    "pt": "Para devolver o artigo, abra a página dos seus pedidos e escolha aquele que não quer mais.",
    "nl": "Het pakket is onderweg en komt morgen aan, maar u moet thuis zijn om het aan te nemen.",
    "el": "Ανοίξτε τη σελίδα με τις παραγγελίες σας.",
    "he": "פתחו את הדף עם ההזמנות שלכם ובחרו.",
    "th": "เปิดหน้าคำสั่งซื้อของคุณแล้วเลือกสินค้า",
    "ko": "주문 페이지를 열고 더 이상 원하지 않는 상품을 선택하세요.",
    "ja": "注文ページを開いて、返品したい商品を選んでください。",
    "zh": "请打开您的订单页面。选择您不再需要的商品。您将收到一张标签。款项将在五天内到账。",
}
OTHERS = [
    "Откройте страницу заказов и выберите товар, который вам больше не нужен.",
    "För att returnera varan öppnar du sidan med dina beställningar och väljer den som du inte vill ha.",
    "For at returnere varen åbner du siden med dine ordrer og vælger den, du ikke vil have.",
    "Fir den Artikel zréckzeschécken, maacht Dir d'Säit mat Äre Bestellungen op a wielt deen, deen Dir net wëllt.",
    "Para devolver o artigo, abra a páxina dos seus pedidos e escolla o que xa non quere.",
    "Per tornar l'article, obriu la pàgina de les vostres comandes i trieu el que ja no voleu.",
    "Om die artikel terug te stuur, maak die bladsy met jou bestellings oop en kies die een wat jy nie wil hê nie.",
    "Pentru a returna articolul, deschideți pagina cu comenzile și alegeți pe cel pe care nu îl mai doriți.",
]


@pytest.mark.parametrize("code", LANGUAGES)
def test_ordinary_texts_of_each_language(code):
    found = {other: is_in(KNOWN[code], other).answer for other in LANGUAGES}
    assert found[code] is Certainty.YES
    assert Certainty.YES not in {answer for other, answer in found.items() if other != code}


@pytest.mark.parametrize("text", OTHERS)
def test_no_language_that_can_be_asked_for_is_taken_for_another(text):
    assert Certainty.YES not in {is_in(text, code).answer for code in LANGUAGES}


@pytest.mark.parametrize("code", ["en", "de", "fr", "es"])
def test_no_message_of_the_corpus_is_taken_for_another_language(code):
    written = yaml.safe_load((CORPUS / f"{code}.yaml").read_text())
    messages = [
        text for name, texts in written.items() if isinstance(texts, list) and name != "keywords" for text in texts
    ]
    several = [" ".join(messages[at : at + 4]) for at in range(0, len(messages), 4)]
    for text in (*messages, *several):
        assert is_in(text, code).answer is not Certainty.NO, text
        others = {is_in(text, other).answer for other in LANGUAGES if other != code}
        assert Certainty.YES not in others, text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "OK.",
        "Ja.",
        "42 EUR",
        "https://example.com/the/page/that/you/can/see/and/use/if/you/want",
        "```\nif you want the value of this, then it is not for you and that is that\n```",
        "Gut. Please open the page with your orders and choose the one that you want.",
        f"{KNOWN['de']} {KNOWN['en']}",
        f"{KNOWN['en']}\n\n{KNOWN['de']}",
    ],
)
@pytest.mark.parametrize("code", ["de", "fr"])
def test_too_little_or_a_mixture_is_not_german_and_not_french(text, code):
    assert is_in(text, code).answer is not Certainty.YES
