"""German."""

from __future__ import annotations

from steadyhand.language.lexicon import Mark, lexicon

GERMAN = lexicon(
    "de",
    closed="""
    ich du er sie es wir ihr mich mir dich dir ihn ihm uns euch ihnen mein meine meinen meinem meiner dein deine
    deinen sein seine seinen unser unsere unseren euer eure ihre ihren ihrem ihrer der die das den dem des ein eine
    einen einem einer eines dies diese dieser dieses diesen alles alle jeder jede jedes etwas man wer was wo hier da
    dort bin bist ist sind seid war waren wart bin's ist's gewesen habe hab hast hat haben habt hatte hatten werde
    wird werden wurde wurden worden kann können muss müssen und oder so als an auf aus bei bis durch für gegen im in
    ins mit nach seit über um unter vom von vor zu zum zur auch noch schon nur sehr ganz jetzt nun wieder dass wie am
    fürs ums
    """,
    content="""
    problem probleme frage fragen bestellung konto hilfe geholfen hilft helfen antwort antworten lösung lösungen geht
    ging funktioniert funktionierte klappt geklappt läuft unterstützung service team info information informationen
    erklärung erklärt rechnung zahlung erstattung anliegen paket lieferung passwort geräte gerät zeit mühe geduld
    bekommen verstanden verstehe weiß genau richtig klar völlig absolut wirklich endlich sofort schnell schnelle
    schneller heute viel vielen vielmals herzlichen herzlich tausend besten lieben hallo tschüss tag abend morgen nett
    nette netten freundlich freundliche hilfreich hilfreiche nützlich gut gute guten guter super toll tolle toller
    klasse prima perfekt perfekte wunderbar wunderbare ausgezeichnet großartig großartige hervorragend spitze
    fantastisch genial ok okay ja jawohl danke dankeschön dank dankbar bedanke zufrieden glücklich froh erleichtert
    begeistert freue freut gelöst erledigt behoben repariert geklärt geregelt fertig angekommen erhalten gefunden
    gemacht bestens gebraucht wollte brauchte brauche mal sehr bitte folgen diesen schritte schritten wunderschönen
    schönen schöner top liebe euch arbeit
    """,
    asked="warum wieso weshalb wann wo wer wen wem wessen was wie welche welcher welches wozu",
    marks={
        Mark.NEGATION: """
        nicht; kein; keine; keinen; keinem; keiner; keines; keins; nie; niemals; nichts; nix; niemand; niemanden;
        nirgends; ohne; kaum; weder; nein; nee; nö; ned; net; wenig; weniger; am wenigsten; unmöglich; fehlt;
        fehlgeschlagen; scheitert; gescheitert; bezweifle; zweifel; weit entfernt; alles andere; gegenteil; statt;
        anstatt; gegen; null; keinesfalls; keineswegs; mitnichten; lass; lassen; hör; hören; vermeiden; aufhören;
        unterlassen; ungelöst
        """,
        Mark.CONDITION: "wenn; falls; sofern; ob; solange; sobald; vorausgesetzt; ansonsten; sonst; außer; angenommen",
        Mark.WISH: """
        hoffe; hoffen; hoffentlich; hofft; wünsche; wünschte; wünschen; möchte; möchten; würde; würden; hätte; hätten;
        wäre; wären; will; wollen; soll; sollen; sollte; sollten; im voraus; erwarte; erwartet
        """,
        Mark.CONTRAST: """
        aber; jedoch; allerdings; obwohl; trotzdem; dennoch; doch; sondern; trotz; dafür; hingegen; während; immerhin;
        wenigstens; zumindest; nur; noch; leider; eigentlich; stattdessen; bloß; einzig; erst
        """,
        Mark.REPORT: """
        sagen; sagt; sagte; sagten; gesagt; sagst; behauptet; behaupten; behauptete; versprochen; verspricht;
        angeblich; laut; meinte; meint; meinen; meinst; heißt; erzählt; hieß; dachte; gedacht; glaube; glaubt;
        glaubte; glauben; nannte; nennt; nennen; zufolge; denke; denkt; gehört; gelesen; geschrieben; gefragt; fragte;
        nenn; nennst
        """,
        Mark.HEDGE: """
        vielleicht; eventuell; womöglich; möglicherweise; wahrscheinlich; vermutlich; könnte; könnten; dürfte;
        scheint; schien; wohl; fast; beinahe; teilweise; halb; halbwegs; einigermaßen; irgendwie; bisschen; etwa;
        meist; meistens; manchmal; gewissermaßen; quasi; versuche; versucht; versuchen; wird; werden; werde; etwas;
        überlegen; anscheinend
        """,
        Mark.DELAY: """
        später; morgen; übermorgen; bis; demnächst; bald; warten; warte; wartet; gewartet; verschieben; nächste woche;
        nächsten; irgendwann; montag; dienstag; mittwoch; donnerstag; freitag; samstag; sonntag; vorerst; abwarten
        """,
        Mark.IRONY: """
        na toll; na super; na klasse; na prima; na bravo; na danke; ja klar; ach ja; ach; bravo; glückwunsch;
        klar doch; von wegen; schön wär's; haha; hahaha; lol; wow; typisch; wie immer; natürlich; echt jetzt;
        so viel zu; dank ihnen; dank dir; dank euch; vielen dank auch; danke auch; selten so; schon wieder;
        nicht wahr; ganz toll; ganz großes
        """,
        Mark.RETRACTION: """
        vergiss; vergessen; ignorieren; ignoriere; zurücknehmen; nehme zurück; nehme das zurück; geirrt; irrtum;
        falsch; nicht mehr; unnötig; überflüssig; abblasen; absagen; doch nicht; entwarnung; hinfällig; nicht nötig;
        erübrigt; streichen; korrektur; fehlalarm
        """,
    },
)
