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
    geholfen hilft geht funktioniert klappt geklappt läuft erklärt beantwortet verstanden genau richtig klar völlig
    absolut wirklich endlich sofort schnell schnelle schneller heute viel vielen vielmals herzlichen herzlich tausend
    besten lieben hallo tschüss nett nette netten freundlich freundliche hilfreich hilfreiche nützlich gut gute guten
    guter super toll tolle klasse prima perfekt perfekte wunderbar wunderbare ausgezeichnet großartig großartige
    hervorragend fantastisch genial ok okay ja danke dankeschön schön dank dankbar bedanke zufrieden glücklich froh
    erleichtert begeistert freue freut gelöst erledigt behoben repariert geklärt geregelt angekommen erhalten bestens
    tag top
    """,
    topics="""
    problem probleme frage fragen bestellung konto hilfe antwort antworten lösung lösungen unterstützung service team
    info information informationen erklärung erklärungen rechnung zahlung erstattung anliegen paket lieferung passwort
    gerät zeit mühe geduld arbeit drucker internet router rückerstattung
    """,
    troubles="problem probleme frage fragen anliegen",
    cures="""
    gelöst erledigt behoben geklärt geregelt angekommen erhalten funktioniert klappt läuft geholfen hilft beantwortet
    """,
    acts="""
    folgen folgende folgenden anleitung öffnen klicken drücken gehen neu starten wählen einstellungen menü seite
    zuerst dann erstattet gesendet geschickt weitergeleitet leite verbinde verbinden mitarbeiter kollegen spezialisten
    vorgesetzten eskaliere eskaliert rufen rettungswagen notruf tut leid
    """,
    advising="""
    ein eine einen der die das den sie ihr ich mein es ist dies bitte jetzt sofort umgehend dringend notfall müssen
    sollten brauchen rufen rufe gehen setzen hin und zu ja empfehle rate nötig notwendig zuerst alle
    """,
    feelings="zufrieden glücklich froh erleichtert begeistert dankbar",
    own="ich wir",
    asked="warum wieso weshalb wann wo wer wen wem wessen was wie welche welcher welches wozu",
    others="""
    er ihn ihm sein seine seinen wer man schon nur noch als bis gegen seit dass wie nach vor unter kann können muss
    müssen war's auf bei durch
    """,
    harmless="""
    genau das habe ich gebraucht; genau das brauchte ich; das war's; einen schönen tag; einen schönen tag noch;
    schönen tag noch; guten tag; schönen abend; das wäre alles; nein das war alles; das war alles; das ist alles;
    sonst nichts; nichts weiter; keine weiteren fragen; ich habe keine weiteren fragen; mehr brauche ich nicht;
    kein problem; keine fragen mehr; keine ursache; ich brauche nichts weiter
    """,
    courtesies="""
    gern geschehen; gerne; bitte schön; auf wiedersehen; tschüss; danke; vielen dank; einen schönen tag;
    einen schönen tag noch; schönen tag noch; hallo; guten tag; und einen schönen tag; keine ursache
    """,
    marks={
        Mark.NEGATION: """
        nicht; kein; keine; keinen; keinem; keiner; keines; keins; nie; niemals; nichts; nix; niemand; niemanden;
        nirgends; ohne; kaum; weder; nee; nö; ned; net; wenig; weniger; am wenigsten; unmöglich; fehlt;
        fehlgeschlagen; scheitert; gescheitert; bezweifle; zweifel; weit entfernt; alles andere; gegenteil; statt;
        anstatt; gegen; null; keinesfalls; keineswegs; mitnichten; lass; lassen; hör; hören; vermeiden; aufhören;
        unterlassen; ungelöst
        """,
        Mark.CONDITION: "wenn; falls; sofern; ob; solange; sobald; vorausgesetzt; ansonsten; sonst; außer; angenommen",
        Mark.WISH: """
        hoffe; hoffen; hoffentlich; hofft; wünsche; wünschte; wünschen; möchte; möchten; würde; würden; hätte; hätten;
        wäre; wären; will; wollen; im voraus; erwarte; erwartet
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
        und mein; und meine; und die; und das; und der; einmal; schon; bereits; dass; ich war; wir waren; vielleicht;
        eventuell; womöglich; möglicherweise; wahrscheinlich; vermutlich; könnte; könnten; dürfte; scheint; schien;
        wohl; fast; beinahe; teilweise; halb; halbwegs; einigermaßen; irgendwie; bisschen; etwa; meist; meistens;
        manchmal; gewissermaßen; quasi; versuche; versucht; versuchen; wird; werden; werde; etwas; überlegen;
        anscheinend
        """,
        Mark.DUTY: "muss; müssen; musst; soll; sollen; sollte; sollten; sollten sie",
        Mark.DELAY: """
        später; morgen; übermorgen; bis; demnächst; bald; warten; warte; wartet; gewartet; verschieben; nächste woche;
        nächsten; irgendwann; montag; dienstag; mittwoch; donnerstag; freitag; samstag; sonntag; vorerst; abwarten
        """,
        Mark.IRONY: """
        ist ja; war ja; sind ja; ja toll; ja super; ja prima; ja klasse; für sie; für dich; für euch; dank auch;
        auch noch; na toll; na super; na klasse; na prima; na bravo; na danke; ja klar; ach ja; ach; bravo;
        glückwunsch; klar doch; von wegen; schön wär's; haha; hahaha; lol; wow; typisch; wie immer; natürlich;
        echt jetzt; so viel zu; dank ihnen; dank dir; dank euch; vielen dank auch; danke auch; selten so;
        schon wieder; nicht wahr; ganz toll; ganz großes
        """,
        Mark.RETRACTION: """
        vergiss; vergessen; ignorieren; ignoriere; zurücknehmen; nehme zurück; nehme das zurück; geirrt; irrtum;
        falsch; nicht mehr; unnötig; überflüssig; abblasen; absagen; doch nicht; entwarnung; hinfällig; nicht nötig;
        erübrigt; streichen; korrektur; fehlalarm
        """,
    },
)
