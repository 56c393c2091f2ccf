"""French. An elided word is a word of its own: "n'est" is read as "n'" and "est"."""

from __future__ import annotations

from steadyhand.language.lexicon import Mark, lexicon

FRENCH = lexicon(
    "fr",
    closed="""
    je j' tu il elle on nous vous ils elles me m' te t' se s' le la les l' lui leur un une des du de d' mon ma mes ton
    ta tes son sa ses notre nos votre vos leurs ce c' cet cette ces ça cela ceci tout toute tous toutes qui que qu'
    quoi où suis es est sommes êtes sont était étais étaient été être ai as a avons avez ont avait avais avoir fait et
    ou à au aux en dans par pour sur avec chez vers y très trop bien aussi déjà maintenant c'est même plus donc alors
    """,
    content="""
    aidé aidée répondu marche fonctionne fonctionné compris exactement clair claire complètement absolument vraiment
    enfin rapidement rapide vite aujourd'hui beaucoup mille grand grande bonjour bonsoir salut bon bonne gentil
    gentille utile utiles efficace super génial géniale parfait parfaite parfaitement excellent excellente merveilleux
    formidable fantastique impeccable nickel top ok accord oui merci remercie remerciements reconnaissant content
    contente contents heureux heureuse ravi ravie satisfait satisfaite soulagé soulagée résolu résolue résolus réglé
    réglée réparé réparée corrigé terminé arrivé arrivée reçu trouvé infiniment sincèrement tellement fois voilà
    """,
    topics="""
    problème problèmes souci soucis question questions commande compte aide réponse réponses solution solutions
    support service équipe information informations explication explications facture paiement remboursement colis
    livraison temps patience travail
    """,
    troubles="problème problèmes souci soucis question questions",
    cures="""
    résolu résolue résolus réglé réglée réparé réparée corrigé arrivé arrivée reçu marche fonctionne aidé répondu
    """,
    acts="""
    suivez étapes suivantes ouvrez cliquez appuyez allez redémarrez choisissez paramètres menu page bouton remboursé
    envoyé transfère transféré responsable spécialiste collègue appelez ambulance urgences désolé désolée veuillez
    """,
    advising="""
    un une le la l' les des du de d' vous votre je j' mon c' est ce cela il faut devez appelez allez maintenant
    immédiatement tout suite urgent urgence veuillez et à pour oui recommande conseille nécessaire tous
    """,
    feelings="content contente contents heureux heureuse ravi ravie satisfait satisfaite soulagé soulagée",
    own="je j' suis nous sommes",
    asked="pourquoi comment quand où qui quoi que quel quelle quels quelles combien est-ce qu'est-ce",
    others="""
    ils elles lui leur leurs on qui que qu' quoi où fait déjà trop plus même donc alors par chez vers ou es as
    """,
    harmless="""
    bonne journée; bonne soirée; au revoir; c' est exactement ce que je voulais; c' est ce que je voulais;
    c' est exactement ce que je cherchais; c' est exactement ce qu' il me fallait; c' est tout; c'est tout;
    ce sera tout; non c' est tout; rien d' autre; pas de souci; pas de problème; je n' ai pas d' autre question;
    je n' ai pas d' autres questions; pas d' autre question; aucun problème; je n' ai plus de questions
    """,
    courtesies="""
    de rien; je vous en prie; avec plaisir; au revoir; bonne journée; bonne soirée; merci; merci beaucoup; bonjour;
    bonsoir
    """,
    marks={
        Mark.NEGATION: """
        plus; ne; n'; pas; jamais; rien; aucun; aucune; aucunement; nullement; personne; sans; ni; non; guère; point;
        peu; moins; impossible; échoué; échoue; échec; loin d'; loin de; tout sauf; contraire; doute; doutes; manque;
        au lieu; contre; zéro; refuse; refusé; arrêtez; arrête; évitez; éviter; cessez; plutôt que; incapable
        """,
        Mark.CONDITION: "si; sinon; pourvu; lorsque; lorsqu'; quand; dès que; dès qu'; à condition; au cas",
        Mark.WISH: """
        espère; espérons; espérer; souhaite; souhaiterais; souhaitons; voudrais; voudrait; aimerais; aimerait; serait;
        serais; aurais; aurait; d'avance; avance; pourvu; veux; veut; voulons; attends
        """,
        Mark.CONTRAST: """
        déjà; même; mais; cependant; pourtant; toutefois; néanmoins; malgré; bien que; quoique; quand même; sauf;
        hormis; seulement; encore; toujours; tandis; alors que; par contre; en revanche; au moins; plutôt; dommage;
        hélas; malheureusement
        """,
        Mark.REPORT: """
        dit; dire; dites; disent; disait; disiez; disant; prétend; prétendez; prétendent; promis; promet; assure;
        assuré; selon; d'après; affirme; affirmé; soi-disant; croyais; pensais; pense; crois; paraît; appelez ça;
        appelez cela; appelle; entendu; demande; demandé; déclare; annoncé
        """,
        Mark.HEDGE: """
        et mon; et ma; et mes; et le; et la; une fois; j' étais; étais; étiez; peut-être; probablement; sûrement;
        éventuellement; possiblement; pourrait; pourriez; semble; semblait; presque; quasi; quasiment; partiellement;
        moitié; plutôt; assez; parfois; souvent; environ; apparemment; essaie; essayez; essayé; essayer; vais; va;
        allez; allons; vont; sera; serai; seront; sans doute; envisagez
        """,
        Mark.DUTY: "doit; dois; devez; doivent; faut; devrait; devrais; devriez; faudrait",
        Mark.DELAY: """
        demain; plus tard; tard; jusqu'à; jusqu'; jusqu'au; bientôt; attendre; attendez; attend; attendu; lundi;
        mardi; mercredi; jeudi; vendredi; samedi; dimanche; semaine prochaine; prochaine; reporter; patienter;
        patientez; après
        """,
        Mark.IRONY: """
        pour vous; pour toi; bravo; félicitations; bien sûr; c'est ça; mais oui; tu parles; ben voyons;
        comme d'habitude; comme toujours; quel; quelle; ah; ah bon; haha; hahaha; mdr; lol; ptdr; wow; tiens; grâce à;
        évidemment; chapeau; du grand; un grand bravo; comme par hasard; franchement; youpi; encore bravo
        """,
        Mark.RETRACTION: """
        oubliez; oublie; ignorez; laissez; laisse; laissez tomber; annulez; annule; annulé; trompé; erreur; inutile;
        finalement; en fait; plus besoin; plus nécessaire; retire; rectification; fausse alerte; changé d'avis
        """,
    },
)
